package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// receiver is an exporter of the SDK that fails with its error.
type receiver struct{ err error }

func (r *receiver) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return r.err }
func (r *receiver) Shutdown(context.Context) error                        { return nil }

// The log says each outage, also one that begins within a minute of the last line, and says no more than one line a minute.
func TestLawTheLogSaysEachOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &receiver{}
		e := newExporter(r, slog.New(slog.NewTextHandler(&log, nil)), nil)
		begin := time.Now()
		for at := time.Duration(0); at < 3*time.Minute; at += 2 * time.Second { // it fails up to 10 s, and again from 12 s on
			time.Sleep(time.Until(begin.Add(at)))
			r.err = nil
			if at != 10*time.Second {
				r.err = errors.New("refused: " + strings.Repeat("x", 1<<20)) // the receiver may answer so much
			}
			if err := e.ExportSpans(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		got := regexp.MustCompile(`spans (can't be sent|are sent again)`).FindAllString(log.String(), -1)
		if want := []string{"spans can't be sent", "spans are sent again", "spans can't be sent"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q:\n%s", got, want, &log)
		}
		if n := log.Len(); n > 4<<10 {
			t.Errorf("got a log of %d bytes, want few: the receiver's words are cut", n)
		}
	})
}
