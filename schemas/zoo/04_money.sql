-- money, alone and as an array.
-- canaries: 918,273.64
CREATE TABLE account (id integer PRIMARY KEY, balance money NOT NULL, past money[], fee money CHECK (fee >= 0::money));
INSERT INTO account SELECT i, (i * 3.5)::numeric::money, ARRAY[1, i]::int[]::money[], (i % 5)::money FROM generate_series(1, 140) i;
INSERT INTO account VALUES (900, 918273.64::money, ARRAY[918273.64::money], NULL);
