"""The public names and their modules; `__init__.py` reads them here."""

from nearfar import datasets as datasets
from nearfar import evaluate as evaluate
from nearfar import losses as losses
from nearfar import neighbors as neighbors
from nearfar import plots as plots
from nearfar import retrieval as retrieval
from nearfar.columns import Columns as Columns
from nearfar.comparison import Comparison as Comparison
from nearfar.comparison import compare as compare
from nearfar.constraints import AllTriplets as AllTriplets
from nearfar.constraints import Chunklets as Chunklets
from nearfar.constraints import FarTargetTriplets as FarTargetTriplets
from nearfar.constraints import NearestTriplets as NearestTriplets
from nearfar.constraints import Pairs as Pairs
from nearfar.constraints import RandomPairs as RandomPairs
from nearfar.constraints import RandomTriplets as RandomTriplets
from nearfar.constraints import Triplets as Triplets
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
from nearfar.learners.max_margin import FrobMetric as FrobMetric
from nearfar.learners.max_margin import MaxMarginMetric as MaxMarginMetric
from nearfar.learners.max_margin import MaxMarginPath as MaxMarginPath
from nearfar.learners.max_margin import max_margin_path as max_margin_path
from nearfar.learners.max_margin.matching_pursuit import (
    MatchingPursuitBasis as MatchingPursuitBasis,
)
from nearfar.learners.nca import NCA as NCA
from nearfar.learners.nca import MixtureNCA as MixtureNCA
from nearfar.learners.nca import SparseNCA as SparseNCA
from nearfar.learners.ordinal import OrdinalEmbedding as OrdinalEmbedding
from nearfar.learners.pieces import PiecewiseMetric as PiecewiseMetric
from nearfar.learners.selection.auto import AutoMetric as AutoMetric
from nearfar.matching import RecordMatcher as RecordMatcher
from nearfar.metrics.gated import GatedMetric as GatedMetric
from nearfar.metrics.metric import Metric as Metric
from nearfar.neighbors import MetricNeighborsClassifier as MetricNeighborsClassifier
from nearfar.neighbors import MetricNeighborsRegressor as MetricNeighborsRegressor
from nearfar.retrieval import Relevance as Relevance
from nearfar.retrieval import RetrievalAdapter as RetrievalAdapter
from nearfar.retrieval import SourceWeights as SourceWeights
from nearfar.retrieval import compare_retrieval as compare_retrieval
from nearfar.rows import open_rows as open_rows
from nearfar.runtime.threads import executor as executor
from nearfar.tables import Table as Table
from nearfar.tables import TableError as TableError
from nearfar.tables import read_table as read_table
from nearfar.verification import PairVerifier as PairVerifier
from nearfar.workflow.gating import Gated as Gated
from nearfar.workflow.gating import gate as gate
from nearfar.workflow.learning import Learned as Learned
from nearfar.workflow.learning import learn as learn
from nearfar.workflow.matching import Matched as Matched
from nearfar.workflow.matching import match as match
from nearfar.workflow.searching import Adapted as Adapted
from nearfar.workflow.searching import adapt as adapt

__version__: str
