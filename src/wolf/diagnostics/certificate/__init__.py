"""Certificate of robustness: bounds on the influence of one error, recovery from jumps, breakdown under outliers."""

from wolf.diagnostics.certificate.certificate import Certificate as Certificate
from wolf.diagnostics.certificate.certificate import CertificateEntry as CertificateEntry
from wolf.diagnostics.certificate.certification import certify as certify
