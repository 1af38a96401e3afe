"""`TRUSTED_TYPES`: the classes in files that skops writes, for `skops.io.load` and MLflow.

skops does not run code of a file, and loads only classes that it is told to trust. These are all of
fitted learners, of what predicts with them, and of `Columns`. None reads or writes files or runs
code of others when it is made.
"""

from __future__ import annotations

TRUSTED_TYPES = [
    "nearfar.columns.columns.Columns",
    "nearfar.supervision.strategies.AllTriplets",
    "nearfar.supervision.strategies.FarTargetTriplets",
    "nearfar.supervision.strategies.NearestTriplets",
    "nearfar.supervision.strategies.RandomPairs",
    "nearfar.supervision.strategies.RandomTriplets",
    "nearfar.evidence.calibrate.LikelihoodRatios",
    "nearfar.measures.neighbor_votes.HeldOutVotes",
    "nearfar.measures.neighbor_votes.LinearPrior",
    "nearfar.measures.neighbor_votes.Margins",
    "nearfar.measures.neighbor_votes.Reliability",
    "nearfar.measures.neighbor_votes.SoftVotes",
    "nearfar.measures.verification.RocCurve",
    "nearfar.learners.boosting.base.Assembly",
    "nearfar.learners.boosting.base.Terms",
    "nearfar.learners.boosting.boostmetric.BoostMetric",
    "nearfar.learners.boosting.drmetric.DRMetric",
    "nearfar.learners.boosting.base.NewTerms",
    "nearfar.learners.boosting.metricboost.MetricBoost",
    "nearfar.learners.boosting.metricboost.VotingAssembly",
    "nearfar.learners.boosting.psdboost.PSDBoost",
    "nearfar.learners.classic.closed_form_base.Solution",
    "nearfar.learners.classic.closed_forms.DCA",
    "nearfar.learners.classic.gmml.GMML",
    "nearfar.learners.classic.closed_forms.InverseCovariance",
    "nearfar.learners.classic.itml.ITML",
    "nearfar.learners.classic.closed_forms.KISSME",
    "nearfar.learners.classic.closed_forms.XQDA",
    "nearfar.learners.classic.closed_forms.LDA",
    "nearfar.learners.classic.lfda.LFDA",
    "nearfar.learners.classic.lmnn.LMNN",
    "nearfar.learners.classic.lsml.LSML",
    "nearfar.learners.classic.mlkr.MLKR",
    "nearfar.learners.classic.mmc.MMC",
    "nearfar.learners.classic.plda.PLDA",
    "nearfar.learners.classic.closed_forms.RCA",
    "nearfar.learners.forest.forest_metric.ForestMetric",
    "nearfar.learners.max_margin.frob_metric.FrobMetric",
    "nearfar.learners.max_margin.max_margin_metric.MaxMarginMetric",
    "nearfar.learners.max_margin.cutting_planes.Solution",
    "nearfar.learners.max_margin.box_dual.PsdSplit",
    "nearfar.learners.nca.mixture_nca.MixtureNCA",
    "nearfar.learners.nca.mixture_nca.MixtureModel",
    "nearfar.learners.nca.nca.NCA",
    "nearfar.learners.nca.nca.SparseNCA",
    "nearfar.learners.forest.piecewise_metric.PiecewiseMetric",
    "nearfar.learners.problem.MetricBuilder",
    "nearfar.learners.scaling.RowSpan",
    "nearfar.learners.scaling.Scaler",
    "nearfar.learners.selection.auto.AutoMetric",
    "nearfar.learners.selection.auto_problem.Blend",
    "nearfar.learners.selection.choice.Shrinkage",
    "nearfar.learners.selection.expectation.Expected",
    "nearfar.losses.loss.Exponential",
    "nearfar.losses.loss.Logistic",
    "nearfar.losses.loss.SquaredHinge",
    "nearfar.metrics.feature_maps.SideBySide",
    "nearfar.metrics.variants.GatedMetric",
    "nearfar.metrics.feature_maps.KernelMap",
    "nearfar.metrics.feature_maps.Forest",
    "nearfar.metrics.feature_maps.LeafMap",
    "nearfar.metrics.metric.Metric",
    "nearfar.metrics.feature_maps.PieceMap",
    "nearfar.metrics.gallery.Gallery",
    "nearfar.metrics.metric.Votes",
    "nearfar.metrics.variants.WideMetric",
    "nearfar.neighbors.calibration.Voting",
    "nearfar.neighbors.classifier.MetricNeighborsClassifier",
    "nearfar.neighbors.prediction.NeighborPredictor",
    "nearfar.neighbors.regressor.MetricNeighborsRegressor",
    "nearfar.runtime.history.History",
    "nearfar.runtime.history.Iteration",
    "nearfar.evidence.certify.OperatingPoint",
    "nearfar.evidence.certify.Bound",
    "nearfar.verification.verifier.PairVerifier",
]
"""Names of classes of nearfar.

Examples
--------
>>> import skops.io
>>> from sklearn.datasets import load_iris
>>> from nearfar import LDA
>>> from nearfar.deploy.skops import TRUSTED_TYPES
>>> data = skops.io.dumps(LDA().fit(*load_iris(return_X_y=True)))
>>> skops.io.loads(data, trusted=TRUSTED_TYPES)
LDA()
"""
