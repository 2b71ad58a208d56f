"""The one way in which a story ends badly."""


class StoryFailed(Exception):
    """Something did not go as the story has it."""
