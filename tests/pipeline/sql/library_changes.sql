-- What is changed of the library, under a name and the table that it changes; read by test_pipeline_since.py.

--- a column: loan
UPDATE loan SET kind = 'map' WHERE id % 2 = 0
--- a pair: reader
UPDATE reader SET active = age < 60
--- a pair with the owner: loan
UPDATE loan SET days = least(59, (age * 2 / 3) % 60) FROM reader r WHERE r.id = reader_id
