"""How robust a method is on your model: bounds, where they are reached, and what trouble it survives."""

from wolf.audit.certificate.certifying import certify as certify
from wolf.audit.certificate.entries import Certificate as Certificate
from wolf.audit.certificate.entries import Entry as Entry
