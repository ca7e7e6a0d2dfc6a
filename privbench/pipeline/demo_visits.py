"""The demonstration's encounters, diagnoses, allergies and invoices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from privbench.pipeline.demo_draw import (
    Array,
    Columns,
    instants,
    join,
    nulls,
    pick,
    rank,
    spread,
    words,
    zipf,
)
from privbench.pipeline.demo_people import CLOSED, CODES, People, chapters
from privbench.rng import generator

_KINDS = np.array(["remote", "outpatient", "emergency", "inpatient"])
_SEVERITIES = np.array(["mild", "moderate", "severe"])
_STATUSES = np.array(["open", "paid", "overdue", "written off"])


@dataclass(frozen=True)
class Visits:
    """What other tables need of the encounters, by start; every array has shape (encounters,)."""

    patient: Array
    department: Array
    kind: Array
    staff: Array
    started: Array
    charge: Array


def draw_visits(total: int, people: People, staff: Columns, seed: int) -> Visits:
    """Encounters: how many, where and of which kind follow the patient's age and frailty."""
    rng = generator(seed, "visits")
    weight = people.frailty * rng.gamma(0.7, 1.0, len(people.age))
    patient = spread(rng, total, weight)
    age, frail = people.age[patient], people.frailty[patient]
    # A patient keeps to one department for most visits.
    usual = pick(rng, _department_chances(people))[patient]
    department = np.where(
        rng.random(total) < 0.6, usual, rng.choice(12, total, p=zipf(12, 0.4)[::-1])
    )
    emergency = department == 1
    kind = pick(
        rng,
        np.column_stack([
            np.where(emergency, 0.02, 1.2 - 0.008 * age),
            np.where(emergency, 0.1, 2.2),
            np.where(emergency, 6.0, 0.25),
            0.15 + 0.25 * frail,
        ]),
    )  # fmt: skip
    start = people.registered[patient]
    left = (CLOSED - start).astype(np.int64)
    days = (rng.beta(1.0, 1.3, total) * left) // 86_400
    hour = np.where(kind == 2, rng.normal(19, 5, total) % 24, rng.normal(11.5, 2.3, total) % 24)
    started = start.astype("M8[D]").astype("M8[s]") + (
        days * 86_400 + (hour * 12).astype(int) * 300
    ).astype("m8[s]")
    base = np.array([35.0, 90.0, 240.0, 1900.0])[kind]
    charge = (base * rng.lognormal(0, 0.45, total) * (1 + 0.05 * department)).round(2)
    order = np.argsort(started, kind="stable")
    doctor = _doctor(rng, department, staff)
    arrays = (patient, department, kind, doctor, started, charge)
    return Visits(*(array[order] for array in arrays))


def _department_chances(people: People) -> Array:
    """Weight of each department for each patient; shape (patients, 12)."""
    chances = np.tile(zipf(12, 0.3), (len(people.age), 1))
    chances[:, [0, 7, 11]] *= 1 + (people.age[:, None] / 40) ** 2
    chances[:, 9] *= np.where(people.age < 18, 25, 0.02)
    chances[:, 6] *= np.where(people.female & (people.age > 17) & (people.age < 46), 6, 0.01)
    chances[:, 11] *= 1 + 2 * people.smoker
    return chances


def _doctor(rng: np.random.Generator, department: Array, staff: Columns) -> Array:
    """A member of the department's staff, the first ones more often; 1-based ids."""
    codes = np.array([item[0] for item in words()["departments"]])
    home = np.searchsorted(codes, np.asarray(staff["department_code"]))
    by_department: Array = np.argsort(home, kind="stable")
    first = np.searchsorted(home[by_department], np.arange(12))
    size = np.bincount(home, minlength=12)
    place = (rng.random(len(department)) ** 2.2 * size[department]).astype(int)
    return np.asarray(by_department[first[department] + place] + 1)


def encounter(visits: Visits, seed: int) -> Columns:
    """The table of encounters."""
    rng = generator(seed, "encounter")
    size = len(visits.patient)
    number = np.arange(1, size + 1)
    urgency = np.array([4.6, 3.8, 1.9, 2.6])[visits.kind]
    minutes = np.array([12, 25, 140, 5200])[visits.kind] * rng.lognormal(0, 0.5, size)
    previous = _previous(visits.patient, number)
    vocabulary = words()
    note = join(
        rng.choice(np.array(vocabulary["note_opening"]), size, p=zipf(8, 0.8)),
        pa.scalar(" "),
        rng.choice(np.array(vocabulary["note_middle"]), size, p=zipf(14, 0.7)),
        rng.choice(np.array(vocabulary["note_closing"]), size, p=zipf(8, 0.9)),
    )
    return {
        "id": number,
        "patient_id": visits.patient + 1,
        "staff_id": nulls(visits.staff, rng.random(size) < np.where(visits.kind == 0, 0.3, 0.03)),
        "department_code": np.array([item[0] for item in vocabulary["departments"]])[
            visits.department
        ],
        "follow_up_of": nulls(previous, (previous == 0) | (rng.random(size) < 0.7)),
        "kind": _KINDS[visits.kind],
        "priority": rng.normal(urgency, 0.7).round().clip(1, 5).astype(int),
        "started_at": instants(visits.started),
        "minutes": nulls(minutes.round().astype(int), rng.random(size) < 0.05),
        "charge": visits.charge,
        "note": nulls(note, rng.random(size) < 0.45),
    }


def _previous(owner: Array, number: Array) -> Array:
    """For each row the last earlier row of the same owner, 0 where there is none."""
    order = np.argsort(owner, kind="stable")
    before = np.r_[0, number[order][:-1]]
    first = np.r_[True, owner[order][1:] != owner[order][:-1]]
    previous = np.empty_like(number)
    previous[order] = np.where(first, 0, before)
    return previous


def diagnoses(total: int, visits: Visits, people: People, codes: Any, seed: int) -> Columns:
    """One to many diagnoses per encounter, by a line number."""
    rng = generator(seed, "encounter_diagnosis")
    weight = np.array([0.5, 1.0, 1.1, 3.0])[visits.kind] * people.frailty[visits.patient]
    visit = spread(rng, total, weight)
    bounds = np.searchsorted(chapters(seed), np.arange(1, 24))
    usual = np.array(words()["department_chapters"])[visits.department[visit]]
    wanted = np.where(rng.random(total) < 0.65, usual, rng.integers(1, 23, total))
    low, high = bounds[wanted - 1], np.maximum(bounds[wanted], bounds[wanted - 1] + 1)
    place = low + (rng.random(total) ** 2.5 * (high - low)).astype(int)
    return {
        "encounter_id": visit + 1,
        "line": rank(visit) + 1,
        "code": codes.take(pa.array(np.minimum(place, CODES - 1))),
        "confirmed": rng.random(total) < np.array([0.5, 0.7, 0.6, 0.9])[visits.kind[visit]],
    }


def allergies(total: int, people: People, seed: int) -> Columns:
    """The junction of patients and substances."""
    rng = generator(seed, "patient_allergy")
    size = len(people.age)
    prone = rng.gamma(0.4, 1.0, size) * np.where(people.age < 40, 1.6, 0.8)
    draws = 3 * total
    patient = spread(rng, draws, prone)
    substance = rng.choice(40, draws, p=zipf(40, 0.8))
    pairs = np.unique(patient * 40 + substance)
    pairs = np.sort(rng.choice(pairs, min(total, len(pairs)), replace=False))
    patient, substance = pairs // 40, pairs % 40
    grave = 0.1 + 0.3 * (substance % 5 == 0)
    since = people.registered[patient] + rng.integers(0, 86_400 * 90, len(pairs)).astype("m8[s]")
    return {
        "patient_id": patient + 1,
        "substance_id": substance + 1,
        "severity": _SEVERITIES[pick(rng, np.column_stack([grave * 0 + 0.6, 0.6 - grave, grave]))],
        "noted": nulls(since.astype("M8[D]"), rng.random(len(pairs)) < 0.25),
    }


def invoices(total: int, visits: Visits, people: People, seed: int) -> Columns:
    """At most one invoice per encounter."""
    rng = generator(seed, "invoice")
    visit = np.sort(rng.choice(len(visits.patient), total, replace=False))
    insured = people.insured[visits.patient[visit]]
    issued = (visits.started[visit] + rng.integers(1, 20, total).astype("m8[D]")).astype("M8[D]")
    due = issued + np.where(insured, 30, 14).astype("m8[D]")
    late = visits.charge[visit] > 1_000
    status = pick(
        rng,
        np.column_stack([
            np.where(issued > np.datetime64("2025-05-15"), 6.0, 0.02),
            np.where(insured, 9.0, 4.0),
            np.where(insured, 0.2, 1.0) * (1 + late),
            np.where(insured, 0.05, 0.4) * (1 + late),
        ]),
    )  # fmt: skip
    paid = issued.astype("M8[s]") + (rng.gamma(2.0, 8.0, total) * 86_400).astype("m8[s]")
    share = np.where(insured, rng.choice([0.1, 0.2, 1.0], total, p=[0.5, 0.3, 0.2]), 1.0)
    return {
        "id": np.arange(1, total + 1),
        "encounter_id": visit + 1,
        "issued": issued,
        "due": due,
        "amount": (visits.charge[visit] * share).round(2),
        "status": _STATUSES[status],
        "paid_at": nulls(instants(paid), status != 1),
    }
