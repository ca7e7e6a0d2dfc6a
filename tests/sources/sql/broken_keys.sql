-- Rows that break a key, each under the table and the key; read by test_sources_staging.py.

--- public.person: PRIMARY KEY (id)
INSERT INTO person VALUES (4711, 'b', 'x')
--- public.person: PRIMARY KEY (id)
INSERT INTO person VALUES (NULL, 'b', 'x')
--- public.person: UNIQUE (mail)
INSERT INTO person VALUES (1, 'ada@x', 'x')
--- public.person: NOT NULL
INSERT INTO person VALUES (1, 'b', NULL)
--- public.visit: FOREIGN KEY (person)
INSERT INTO visit VALUES (5, 1, NULL)
--- public.visit: PRIMARY KEY (person, nr)
INSERT INTO visit VALUES (4711, 1, NULL)
