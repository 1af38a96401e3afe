"""The public names and their modules; `__init__.py` reads them here."""

from nearfar import datasets as datasets
from nearfar import losses as losses
from nearfar import neighbors as neighbors
from nearfar import plots as plots
from nearfar.ask.ordinal_embedding import OrdinalEmbedding as OrdinalEmbedding
from nearfar.columns import Columns as Columns
from nearfar.comparison import Comparison as Comparison
from nearfar.comparison import compare as compare
from nearfar.frames import Table as Table
from nearfar.frames import TableError as TableError
from nearfar.frames import read_table as read_table
from nearfar.learners.boosting import BoostMetric as BoostMetric
from nearfar.learners.boosting import DRMetric as DRMetric
from nearfar.learners.boosting import MetricBoost as MetricBoost
from nearfar.learners.boosting import PSDBoost as PSDBoost
from nearfar.learners.classic import DCA as DCA
from nearfar.learners.classic import GMML as GMML
from nearfar.learners.classic import ITML as ITML
from nearfar.learners.classic import KISSME as KISSME
from nearfar.learners.classic import LDA as LDA
from nearfar.learners.classic import LFDA as LFDA
from nearfar.learners.classic import LMNN as LMNN
from nearfar.learners.classic import LSML as LSML
from nearfar.learners.classic import MLKR as MLKR
from nearfar.learners.classic import MMC as MMC
from nearfar.learners.classic import PLDA as PLDA
from nearfar.learners.classic import RCA as RCA
from nearfar.learners.classic import XQDA as XQDA
from nearfar.learners.classic import InverseCovariance as InverseCovariance
from nearfar.learners.forest import ForestMetric as ForestMetric
from nearfar.learners.forest import PiecewiseMetric as PiecewiseMetric
from nearfar.learners.max_margin import FrobMetric as FrobMetric
from nearfar.learners.max_margin import MaxMarginMetric as MaxMarginMetric
from nearfar.learners.max_margin.matching_pursuit import (
    MatchingPursuitBasis as MatchingPursuitBasis,
)
from nearfar.learners.nca import NCA as NCA
from nearfar.learners.nca import MixtureNCA as MixtureNCA
from nearfar.learners.nca import SparseNCA as SparseNCA
from nearfar.learners.selection.auto import AutoMetric as AutoMetric
from nearfar.metrics.metric import Metric as Metric
from nearfar.metrics.variants import GatedMetric as GatedMetric
from nearfar.neighbors import MetricNeighborsClassifier as MetricNeighborsClassifier
from nearfar.neighbors import MetricNeighborsRegressor as MetricNeighborsRegressor
from nearfar.records import RecordMatcher as RecordMatcher
from nearfar.records.match import Matched as Matched
from nearfar.records.match import match as match
from nearfar.rows import open_rows as open_rows
from nearfar.runtime.threads import executor as executor
from nearfar.search import Relevance as Relevance
from nearfar.search import RetrievalAdapter as RetrievalAdapter
from nearfar.search import SourceWeights as SourceWeights
from nearfar.search import compare_retrieval as compare_retrieval
from nearfar.search.adapt import Adapted as Adapted
from nearfar.search.adapt import SearchReport as SearchReport
from nearfar.search.adapt import adapt as adapt
from nearfar.search.adapt import search_report as search_report
from nearfar.search.gate import Gated as Gated
from nearfar.search.gate import gate as gate
from nearfar.supervision import AllTriplets as AllTriplets
from nearfar.supervision import Chunklets as Chunklets
from nearfar.supervision import FarTargetTriplets as FarTargetTriplets
from nearfar.supervision import NearestTriplets as NearestTriplets
from nearfar.supervision import Pairs as Pairs
from nearfar.supervision import RandomPairs as RandomPairs
from nearfar.supervision import RandomTriplets as RandomTriplets
from nearfar.supervision import Triplets as Triplets
from nearfar.tables.learn import Learned as Learned
from nearfar.tables.learn import learn as learn
from nearfar.verification import PairVerifier as PairVerifier
from nearfar.verification.threshold import threshold as threshold

__version__: str
