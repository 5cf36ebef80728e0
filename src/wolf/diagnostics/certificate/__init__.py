"""How robust a method is on your model: bounds, where they are reached, and what trouble it survives."""

from wolf.diagnostics.certificate.certificate import Certificate as Certificate
from wolf.diagnostics.certificate.certificate import Entry as Entry
from wolf.diagnostics.certificate.certification import certify as certify
