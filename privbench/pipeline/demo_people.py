"""The demonstration's look-up tables, staff and patients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privbench.pipeline.demo_draw import (
    Array,
    Columns,
    email,
    instants,
    join,
    names,
    nulls,
    words,
    zipf,
)
from privbench.rng import generator

#: First and last moment of the clinic's records.
OPENED = np.datetime64("2019-01-01T00:00:00", "s")
CLOSED = np.datetime64("2025-06-30T00:00:00", "s")
#: Number of diagnosis codes.
CODES = 300

_ROLES = np.array(["clerk", "nurse", "therapist", "physician", "surgeon"])
_SEXES = np.array(["female", "male", "other"])
_BLOOD = np.array(["0+", "0-", "A+", "A-", "B+", "B-", "AB+", "AB-"])


def chapters(seed: int) -> Array:
    """Chapter of every diagnosis code, ascending; shape (CODES,)."""
    return np.sort(generator(seed, "diagnosis_code").integers(1, 23, CODES))


def lookups(seed: int) -> dict[str, Columns]:
    """Departments, diagnosis codes and substances."""
    vocabulary, rng = words(), generator(seed, "diagnosis_title")
    codes, labels, floors = zip(*vocabulary["departments"], strict=True)
    chapter = chapters(seed)
    title = join(
        *(
            rng.choice(np.array(vocabulary[part]), CODES)
            for part in ("diagnosis_first", "diagnosis_second", "diagnosis_place")
        ),
        separator=" ",
    )
    letters = np.array([chr(code) for code in range(ord("A"), ord("Z") + 1)])
    code = join(letters[chapter], pa.array(100 + np.arange(CODES)).cast(pa.string()))
    substances = vocabulary["substances"]
    return {
        "department": {
            "code": np.array(codes),
            "name": np.array(labels),
            "floor": np.array(floors),
        },
        "diagnosis_code": {"code": code, "title": title, "chapter": chapter},
        "substance": {
            "id": np.arange(1, len(substances) + 1),
            "name": np.array(substances),
        },
    }


def staff(size: int, seed: int) -> Columns:
    """Employees; pay follows role and years, managers are earlier colleagues."""
    rng = generator(seed, "staff")
    departments = np.array([item[0] for item in words()["departments"]])
    role = rng.choice(5, size, p=[0.2, 0.4, 0.12, 0.2, 0.08])
    years = rng.gamma(2.0, 4.0, size).clip(0, 38)
    pay = np.array([26_000, 34_000, 38_000, 72_000, 95_000])[role]
    first, last = names(rng, size, rng.random(size) < np.array([0.7, 0.85, 0.7, 0.5, 0.3])[role])
    number = np.arange(1, size + 1)
    manager = rng.integers(1, np.maximum(number // 6, 1) + 1)
    return {
        "id": number,
        "first_name": first,
        "last_name": last,
        "email": email(first, last, number, "@clinic.example"),
        "role": _ROLES[role],
        # The first twelve give every department somebody.
        "department_code": departments[
            np.r_[np.arange(12), rng.choice(12, size - 12, p=zipf(12, 0.5))]
        ],
        "manager_id": nulls(manager, manager >= number),
        "hired": (CLOSED - (years * 365.25 * 86_400).astype("m8[s]")).astype("M8[D]"),
        "salary": (pay * (1 + 0.02 * years) * rng.lognormal(0, 0.08, size)).round(2),
        "active": rng.random(size) < 0.93,
    }


@dataclass(frozen=True)
class People:
    """What other tables need of the patients; every array has shape (patients,)."""

    age: Array
    female: Array
    region: Array
    insured: Array
    smoker: Array
    registered: Array

    @property
    def frailty(self) -> Array:
        """Drives the number and the kind of a patient's encounters."""
        young = np.exp(-((self.age / 6.0) ** 2))
        return 0.25 + (self.age / 60.0) ** 2 + young + 0.6 * self.smoker


def draw_people(size: int, seed: int) -> People:
    """Patients as the other tables see them: region drives age, insurance and smoking."""
    rng = generator(seed, "people")
    region = rng.choice(16, size, p=zipf(16, 0.9))
    age = np.where(
        rng.random(size) < 0.22, rng.gamma(2.0, 6.0, size), rng.normal(38 + 1.6 * region, 17)
    )
    age = age.clip(0, 99)
    female = rng.random(size) < 0.5 + 0.0012 * age
    chance = (0.9 - 0.035 * region + 0.1 * (age > 65)).clip(0.1, 0.99)
    smokes = rng.random(size) < np.where((age > 16) & (age < 70), 0.14 + 0.012 * region, 0.02)
    span = int((CLOSED - OPENED) / np.timedelta64(1, "s"))
    registered = OPENED + (rng.beta(0.8, 1.4, size) * span * 0.95).astype("m8[s]")
    return People(age, female, region, rng.random(size) < chance, smokes, registered)


def patient(people: People, seed: int) -> Columns:
    """The table of patients."""
    rng = generator(seed, "patient")
    size = len(people.age)
    number = np.arange(1, size + 1)
    first, last = names(rng, size, people.female)
    grown = (people.age / 17).clip(0, 1)
    height = 55 + grown * (108 + 13 * ~people.female) + rng.normal(0, 2 + 4.5 * grown, size)
    weight = (height / 100) ** 2 * rng.normal(17 + 8.5 * grown + 1.5 * people.smoker, 2.6)
    sex = np.where(rng.random(size) < 0.004, 2, (~people.female).astype(int))
    unmeasured = rng.random(size) < 0.18
    phone = rng.integers(700_000_000, 799_999_999, size)
    record = 100_000_000 + rng.permutation(size) * 7
    return {
        "id": number,
        "record_number": pa.array(record).cast(pa.string()),
        "first_name": first,
        "last_name": last,
        "email": nulls(
            email(first, last, number, "@mail.example"),
            rng.random(size) < 0.15 + 0.006 * people.age,
        ),
        "phone": nulls(
            join(pa.scalar("+44"), pa.array(phone).cast(pa.string())), rng.random(size) < 0.1
        ),
        "birth_date": (CLOSED - (people.age * 365.25 * 86_400).astype("m8[s]")).astype("M8[D]"),
        "sex": _SEXES[sex],
        "blood_group": nulls(
            _BLOOD[rng.choice(8, size, p=[0.36, 0.09, 0.28, 0.08, 0.08, 0.03, 0.06, 0.02])],
            rng.random(size) < 0.35,
        ),
        "region": np.array(words()["regions"])[people.region],
        "insured": people.insured,
        "smoker": nulls(people.smoker, rng.random(size) < 0.12),
        "height_cm": nulls(height.round().clip(40, 220).astype(int), unmeasured),
        "weight_kg": nulls(weight.clip(2, 220).round(1), unmeasured | (rng.random(size) < 0.04)),
        "registered_at": instants(people.registered),
    }
