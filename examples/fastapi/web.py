"""A FastAPI app that enqueues without blocking its event loop."""

from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from tasks import summarise, vtrr

from vtrr_queue import BacklogFull


class Texts(BaseModel):
    """What is to be summarised."""

    texts: list[str]


@asynccontextmanager
async def lifespan(_app: FastAPI):
    """Close the queue's connections with the app."""
    yield
    await vtrr.aclose()


app = FastAPI(lifespan=lifespan)


@app.post("/{tenant}/texts", status_code=202)
async def add_texts(tenant: str, sent: Texts) -> dict[str, list[str]]:
    """Enqueue a summary of each text."""
    try:
        ids = await summarise.aqueue(tenant, [{"args": [text]} for text in sent.texts])
    except BacklogFull as error:
        raise HTTPException(429, str(error)) from error
    return {"ids": ids}


@app.get("/items/{item_id}")
def read_item(item_id: str) -> dict[str, Any]:
    """State and result of an item; Celery's results block, so this one runs in a thread."""
    result = summarise.AsyncResult(item_id)
    return {"state": result.state, "result": result.result if result.successful() else None}
