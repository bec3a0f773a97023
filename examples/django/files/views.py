"""Views that enqueue: one blocking, one asynchronous."""

import json
from functools import partial

from django.db import transaction
from django.http import JsonResponse
from django.shortcuts import aget_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from .models import Upload
from .tasks import count_lines


@csrf_exempt
@require_POST
@transaction.atomic
def upload(request):
    """Store texts, and enqueue them when the rows can be seen by a worker."""
    sent = json.loads(request.body)
    rows = [Upload.objects.create(tenant=sent["tenant"], text=text) for text in sent["texts"]]
    entries = [{"args": [row.pk], "id": f"upload-{row.pk}"} for row in rows]
    transaction.on_commit(partial(count_lines.queue, sent["tenant"], entries))
    return JsonResponse({"ids": [row.pk for row in rows]}, status=202)


@csrf_exempt
@require_POST
async def count_again(_request, pk):
    """Forget what was counted and enqueue the upload again, without blocking the event loop."""
    row = await aget_object_or_404(Upload, pk=pk)
    await Upload.objects.filter(pk=pk).aupdate(lines=None)
    ids = await count_lines.aqueue(row.tenant, [{"args": [pk]}])
    return JsonResponse({"ids": ids}, status=202)


@require_GET
async def read(_request, pk):
    """What was counted; null until then."""
    row = await aget_object_or_404(Upload, pk=pk)
    return JsonResponse({"tenant": row.tenant, "lines": row.lines})
