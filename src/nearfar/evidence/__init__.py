"""What may be stated, as functions on arrays: nothing is stated that does not go through here.

splits       folds of rows, groups and classes; rows that are one thing
intervals    90 % intervals of means and ratios; judgements that share rows
gain         how much better a method is, and how sure that is
certify      targets; counts -> effective number -> bound; weaker targets
calibrate    likelihood ratios of distances
verdict      categories, the rule that assigns them, and their sentences
"""
