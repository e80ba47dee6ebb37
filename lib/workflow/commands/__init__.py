"""What users ask of a study: status, verification, archive, sharing, new experiments, import, the reference."""
