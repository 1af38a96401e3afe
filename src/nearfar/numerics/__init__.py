"""Pure functions and operators on arrays: edges, tiles of pairs, the simplex, L-BFGS."""
