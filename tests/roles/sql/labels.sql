-- Labels of columns, each under the column and what the config says of it then: kind and provider; read by test_roles_masks.py.

--- holder.id: nothing
MASKED WITH VALUE 0
--- holder.label: text last_name
MASKED WITH FUNCTION anon.fake_last_name()
--- holder.reach: text email
masked  with function anon.partial_email(reach)
--- holder.account: skip
MASKED WITH VALUE NULL
--- holder.must: text
MASKED WITH VALUE NULL
--- holder.fixed: text
MASKED WITH VALUE $$CONFIDENTIAL$$
--- holder.born: nothing
MASKED WITH FUNCTION anon.random_date_between('1900-01-01', now())
--- holder.size: nothing
MASKED WITH VALUE 7
--- holder.note: text
MASKED WITH FUNCTION anon.lorem_ipsum(words := 5)
--- holder.shown: nothing
NOT MASKED
--- holder.mine: categories
MASKED WITH FUNCTION anon.fake_city()
--- genre.name: text
MASKED WITH FUNCTION pg_catalog.md5(name)
