package httpapi

import "daybook/events"

// CloudEvent is an event as answers show it.
type CloudEvent = events.CloudEvent

func cloudEvent(e events.Event) (CloudEvent, error) { return events.Structured(e) }
