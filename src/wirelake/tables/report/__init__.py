"""Reports about a lake.

- `queries`: the SQL, in DuckDB's dialect.
- `report`: runs the queries; a `Report` is plain data, the same for terminal, JSON and HTML.
- `verdict`: what needs attention, in sentences. `more`: commands that show the rows of a list.
- `sheets`: the lists of a report as tables of text, for terminal and HTML.
- `plots`: the plots, as data for plotly.js.
- `page`: the HTML page; its CSS and JavaScript are in `page_assets`.

Only `page` needs an optional package (plotly), and imports it when a page is written.
"""
