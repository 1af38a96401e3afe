"""Messy tables with a known right answer for each column."""

from messy.first_three import hospital_visits, soils, used_cars
from messy.other_seven import (
    athletes,
    company_figures,
    groceries,
    housing_ads,
    sensor_logs,
    shop_orders,
    survey,
)

TABLES = [soils, hospital_visits, used_cars, housing_ads, shop_orders]
TABLES += [sensor_logs, survey, company_figures, athletes, groceries]
"""Functions from a number of rows to a table."""
