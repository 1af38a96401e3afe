"""What held-out data choose: the scale, the number of iterations, the shrinkage, the learner."""
