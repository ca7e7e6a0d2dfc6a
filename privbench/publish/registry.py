"""``deployment.yaml``: the release as an entry of OpenDP's registry of DP deployments.

Fields and fixed values are those of the registry's own entries (opendp/deployments-registry-data),
tier 3. What only a person can say (region, sector) says so.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from privbench.publish.accounts import paragraphs, unit_lines
from privbench.publish.facts import Bundle, Certificate

#: Names of ours for mechanisms, as sentences of the registry.
_ASK = "To be filled in by the publisher."


def deployment(bundle: Bundle, certificate: Certificate) -> str:
    """The entry as YAML."""
    return "\n".join(_yaml(_entry(bundle, certificate))) + "\n"


def _entry(bundle: Bundle, certificate: Certificate) -> dict[str, Any]:
    promise, said = certificate.promise, paragraphs(certificate)
    used = Counter(event.mechanism for event in certificate.events)
    mechanisms = "; ".join(f"{count} × {name}" for name, count in sorted(used.items()))
    loss: dict[str, Any] = {"epsilon": promise.epsilon}
    if promise.delta:
        loss["delta"] = promise.delta
    public = ", ".join(certificate.public)
    return {
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": bundle.title,
                "data_curators": [{"data_curator_name": bundle.publisher}],
                "intended_use": "Benchmarking of database systems.",
                "data_product_type": "Synthetic data",
                "data_product_region": _ASK,
                "description": f"A synthetic clone of a relational database: {len(bundle.tables)} "
                f"tables, {sum(table.rows for table in bundle.tables)} rows, with its schema.",
                "publication_date": bundle.published,
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if promise.delta else "Pure DP",
                "data_domain": "Databases of the published schema.",
                "unprotected_quantities": "The schema, with the values that it holds, and the "
                "config are public. "
                + (f"Copied verbatim, as declared public: {public}." if public else "No table is."),
            },
            "privacy_loss": {
                "privacy_unit": "Row-level" if promise.unit == "row" else "Owner-level",
                "privacy_unit_details": f"{'; or '.join(unit_lines(certificate))}. {said['means']}",
                "privacy_parameters": loss,
                "privacy_parameters_details": said["accounting"],
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The data's owner, who runs the mechanisms and is trusted with the data; "
                "everybody else, who may see all of the release and know everything but the rows "
                "of one unit.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Models are fitted to noisy statistics; rows, keys, files and "
                "the workload are made from the model alone.",
                "composition": said["accounting"],
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Every size, range and list of labels "
                "that is learned from rows is one of the events and is paid for. No release may "
                "be chosen or tuned by a comparison with the source.",
                "mechanisms": f"{mechanisms}. Noise is drawn by OpenDP "
                f"{certificate.versions.get('opendp', '')} on integers, from the operating "
                "system's entropy; every event is written to a ledger before it is drawn. "
                f"privbench {bundle.privbench}, synthesizer {certificate.synthesizer}.",
                "justification": said["roles"],
            },
            "administrative": {"registry_authors": [bundle.publisher]},
        },
    }


def _yaml(value: dict[str, Any], indent: str = "") -> list[str]:
    """Nested maps, lists and plain values as YAML; texts in JSON's quotes, which YAML reads."""
    lines = []
    for name, item in value.items():
        if isinstance(item, dict):
            lines += [f"{indent}{name}:", *_yaml(item, indent + "  ")]
        elif isinstance(item, list):
            lines.append(f"{indent}{name}:")
            lines += [f"{indent}  - {json.dumps(each, ensure_ascii=False)}" for each in item]
        else:
            lines.append(f"{indent}{name}: {json.dumps(item, ensure_ascii=False)}")
    return lines
