"""Whether one record can touch another's gradient: cases, measurement, verdict."""
