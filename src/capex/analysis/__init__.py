"""What-if studies over recorded runs: forks, counterfactual replay, thresholds, forecasts."""
