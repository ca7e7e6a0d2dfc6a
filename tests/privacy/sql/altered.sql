-- Statements that alter the file of a ledger, each under what is said of it; read by test_privacy_ledger_file.py.

--- damaged
DELETE FROM entries WHERE part = '' AND number = 2
--- damaged
UPDATE entries SET number = 9 WHERE part = '' AND number = 2
--- damaged
UPDATE entries SET number = number - 5 WHERE part = '' AND number = 4
--- damaged
UPDATE entries SET entry = replace(entry, '0.1', '0.0')
--- damaged
UPDATE entries SET entry = x'00' WHERE number = 0
--- damaged
UPDATE entries SET seal = upper(seal)
--- nothing
UPDATE entries SET part = 'release2' WHERE part = ''
--- damaged
CREATE INDEX more ON entries (seal)
--- damaged
CREATE VIEW more AS SELECT load_extension('x')
--- damaged
CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END
--- damaged
ALTER TABLE entries ADD COLUMN more
--- a later version of privbench
PRAGMA user_version = 2
--- damaged
PRAGMA user_version = 0
--- is no ledger
PRAGMA application_id = 1
--- write-ahead log
PRAGMA journal_mode = WAL
