"""Addresses."""

from django.urls import path
from files import views

urlpatterns = [
    path("uploads", views.upload),
    path("uploads/<int:pk>", views.read),
    path("uploads/<int:pk>/again", views.count_again),
]
