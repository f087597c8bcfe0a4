package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/internal/redrive"
)

// Redrives starts runs on this node, and shows and stops those of all nodes; package redrive has the only one.
type Redrives interface {
	Start(ctx context.Context, r redrive.Request) (redrive.Run, error)
	List(ctx context.Context) ([]redrive.Run, error)
	Get(ctx context.Context, id string) (redrive.Run, error)
	Stop(ctx context.Context, id, by, why string) (redrive.Run, error)
	Events(ctx context.Context, n int) ([]audit.Event, error)
}

// ofRedrives serves what needs [Redrives].
func (a *api) ofRedrives(serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		if a.redrives == nil {
			return nil, noSuchService("replay or drop dead letters")
		}
		return serve(r)
	}
}

// started is a run that goes on when the request is answered.
type started struct{ redrive.Run }

// settle starts a run that replays or drops dead letters.
func (a *api) settle(kind redrive.Kind) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var topic, since string
		var ids, classes []string
		var all bool
		req := redrive.Request{Kind: kind}
		ch, err := signed(r, map[string]any{"topic": &topic, "ids": &ids, "class": &classes, "since": &since, "all": &all, "rate": &req.Rate}, nothingMore)
		if err != nil {
			return nil, err
		}
		req.By, req.Why = ch.By, ch.Why
		if err := a.pick(&req, topic, ids, classes, since, all); err != nil {
			return nil, err
		}
		run, err := a.redrives.Start(r.Context(), req)
		return started{run}, err
	}
}

// pick reads which letters a request is about.
func (a *api) pick(req *redrive.Request, topic string, ids, classes []string, since string, all bool) (err error) {
	if topics := a.Config.Kafka.JobTopics(); topic == "" && len(topics) == 1 {
		topic = topics[0]
	}
	if _, err := a.jobTopic(topic); err != nil {
		return err
	}
	req.Topic = topic
	switch filtered := len(classes) > 0 || since != ""; {
	case len(ids) > 0 && (filtered || all):
		return fault.New("ids", fault.Entries(len(ids)), "name single letters: leave out class, since and all")
	case len(ids) == 0 && !filtered && !all:
		return fault.New("all", false, "name letters by ids, give a class or since, or state all: true")
	}
	for _, text := range ids {
		id, err := deadletter.ParseRecordID(text)
		if err != nil || id.Topic != topic+".dlq" {
			return fault.New("ids", text, "must be letters of topic "+topic+", such as "+topic+".dlq/3/1042")
		}
		req.IDs = append(req.IDs, id)
	}
	if req.Classes, err = classesOf(classes); err != nil {
		return err
	}
	req.Since, err = sinceOf(since, time.Now())
	return err
}

func (a *api) listRedrives(r *http.Request) (any, error) { return a.redrives.List(r.Context()) }

func (a *api) redrive(r *http.Request) (any, error) {
	return a.redrives.Get(r.Context(), r.PathValue("id"))
}

func (a *api) stopRedrive(r *http.Request) (any, error) {
	ch, err := signed(r, nil, nothingMore)
	if err != nil {
		return nil, err
	}
	return a.redrives.Stop(r.Context(), r.PathValue("id"), ch.By, ch.Why)
}

func (a *api) redriveHistory(r *http.Request) (any, error) {
	n, err := within(r, "n", fewLines, mostLines)
	if err != nil {
		return nil, err
	}
	return a.redrives.Events(r.Context(), n)
}

// redriveConflict tells whether an error says that a run is in the way, or over.
func redriveConflict(err error) bool {
	return errors.As(err, new(*redrive.RunningError)) || errors.Is(err, redrive.ErrBusy) || errors.Is(err, redrive.ErrOver)
}
