-- Look-ups by readable keys; 2,400 orders of 300 customers, four in five in one currency. Calendars by dates that are
-- written as numbers, as texts and as texts of months; no order was made in their first year.
CREATE TABLE currency (code char(3) PRIMARY KEY, name text NOT NULL, digits smallint NOT NULL);
CREATE TABLE state (state varchar(12) PRIMARY KEY, final boolean NOT NULL);
CREATE TABLE dim_date (date_key integer PRIMARY KEY, full_date date NOT NULL UNIQUE, year smallint NOT NULL, month_name char(9) NOT NULL, dow smallint NOT NULL, is_weekend boolean NOT NULL, season text NOT NULL);
CREATE TABLE calendar (day text PRIMARY KEY, year_quarter char(6) NOT NULL, weekend char(1));
CREATE TABLE months (month varchar(7) PRIMARY KEY, year integer, quarter numeric(1) NOT NULL);
CREATE TABLE closing (date_key integer PRIMARY KEY REFERENCES dim_date, total integer NOT NULL);
CREATE TABLE customer (id integer PRIMARY KEY, email text NOT NULL UNIQUE, currency char(3) NOT NULL REFERENCES currency, since text REFERENCES calendar);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer, state varchar(12) REFERENCES state, currency char(3) NOT NULL REFERENCES currency, ordered integer NOT NULL REFERENCES dim_date, shipped integer REFERENCES dim_date, billed varchar(7) REFERENCES months);
INSERT INTO currency VALUES ('EUR', 'Euro', 2), ('USD', 'Dollar', 2), ('1', 'One', 2), ('XXX', 'None', 0);
INSERT INTO state VALUES ('NEW', false), ('PAID', false), ('DONE', true), ('LOST', true);
INSERT INTO dim_date SELECT to_char(d, 'YYYYMMDD')::integer, d, extract(year FROM d), to_char(d, 'Month'), extract(dow FROM d), extract(isodow FROM d) > 5, CASE WHEN extract(month FROM d) BETWEEN 4 AND 9 THEN 'summer' ELSE 'winter' END FROM generate_series('2021-01-01'::date, '2023-12-31', '1 day') d;
INSERT INTO calendar SELECT to_char(d, 'YYYY-MM-DD'), to_char(d, 'YYYY"Q"Q'), CASE WHEN extract(isodow FROM d) > 5 THEN 'Y' ELSE 'N' END FROM generate_series('2020-01-01'::date, '2021-12-31', '1 day') d;
INSERT INTO months SELECT to_char(d, 'YYYY-MM'), extract(year FROM d), extract(quarter FROM d) FROM generate_series('2021-01-01'::date, '2023-12-31', '1 month') d;
INSERT INTO closing SELECT date_key, 5 FROM dim_date WHERE year = 2022;
INSERT INTO customer SELECT g, 'c' || g || '@x.example', CASE WHEN g % 5 > 0 THEN 'EUR' ELSE 'USD' END, to_char('2020-01-01'::date + g % 700, 'YYYY-MM-DD') FROM generate_series(1, 300) g;
INSERT INTO orders SELECT g, 1 + g % 300, (ARRAY['NEW', 'PAID', 'DONE', 'DONE', NULL])[1 + g % 5], CASE WHEN g % 5 > 0 THEN 'EUR' WHEN g % 2 > 0 THEN '1' ELSE 'USD' END, to_char('2022-01-01'::date + g % 700, 'YYYYMMDD')::integer, CASE WHEN g % 4 > 0 THEN to_char('2022-01-02'::date + g % 700, 'YYYYMMDD')::integer END, to_char('2022-01-01'::date + g % 700, 'YYYY-MM') FROM generate_series(1, 2400) g;
