"""The query heat map: a section of the report that draws circuits coloured by selectivity."""
