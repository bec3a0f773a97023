"""What is stored."""

from django.db import models


class Upload(models.Model):
    """A text of a tenant."""

    tenant = models.CharField(max_length=100)
    text = models.TextField()
    lines = models.IntegerField(null=True)

    def __str__(self):
        """Whose it is."""
        return f"{self.tenant} {self.pk}"
