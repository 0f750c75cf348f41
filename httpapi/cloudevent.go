package httpapi

import "daybook/events"

// CloudEvent is the form of an event in responses.
type CloudEvent = events.CloudEvent

func cloudEvent(e events.Event) (CloudEvent, error) { return events.Structured(e) }
