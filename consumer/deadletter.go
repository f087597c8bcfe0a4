package consumer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// The headers of a dead letter, beside those about its origin in package job.
// All are text. They replace headers of the same name, they are not appended.
const (
	headerOriginalTime  = "x-original-timestamp" // RFC 3339
	headerOriginalSize  = "x-original-size"      // of a value that was cut, in bytes
	headerTruncated     = "x-truncated"
	headerGroup         = "x-consumer-group"
	headerAttempt       = "x-attempt"
	headerFirstFailedAt = "x-first-failed-at"
	headerFailedAt      = "x-failed-at"
	headerErrorClass    = "x-error-class"
	headerErrorCode     = "x-error-code"
	headerErrorMessage  = "x-error-message"
	headerNode          = "x-node"
)

const (
	maxMessageBytes = 1 << 10
	maxCodeBytes    = 256
	// letterBytes is a little below what a broker takes at once by default. A
	// larger letter is tried as it is before it is cut to this.
	letterBytes = 1<<20 - 16<<10
	deadLinger  = 5 * time.Millisecond
)

// letter is a delivery on its way to the dead letters.
type letter struct {
	d *Delivery
	f Failure
}

// deadLetters writes to the dead-letter topics. Its methods block and may be
// called from any goroutine; calls at the same time share batches.
type deadLetters struct {
	batched *kafka.Writer // many small letters at once
	single  *kafka.Writer // one letter a batch, for those that are too large
	hub     *hub
	metrics *metrics
	log     *slog.Logger
	node    string
	group   string
	attempt time.Duration // for one write
}

func newDeadLetters(o *Options, cl *client, m *metrics, h *hub) *deadLetters {
	q := &deadLetters{hub: h, metrics: m, log: o.Logger, node: o.Node, group: o.Group}
	// Half the drain, so that a write that has begun when it does ends within it.
	q.attempt = o.Drain / 2
	q.batched = q.newWriter(cl, 100, letterBytes)
	q.single = q.newWriter(cl, 1, math.MaxInt32)
	return q
}

func (q *deadLetters) newWriter(cl *client, size int, bytes int64) *kafka.Writer {
	return &kafka.Writer{
		Addr: cl.Addr, Transport: cl.transport, Balancer: kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: deadLinger, MaxAttempts: 1,
		BatchSize: size, BatchBytes: bytes, ReadTimeout: q.attempt, WriteTimeout: q.attempt,
	}
}

// close ends the writers. Nothing is pending: every write was awaited.
func (q *deadLetters) close() {
	_ = q.batched.Close()
	_ = q.single.Close()
}

// bury writes letters of one assignment until Kafka has all of them or ctx
// ends, and settles each accordingly.
func (q *deadLetters) bury(ctx context.Context, letters []letter) {
	a := letters[0].d.part.asg
	now := time.Now()
	todo := make([]kafka.Message, len(letters))
	for i, l := range letters {
		todo[i] = q.message(l, now)
		todo[i].WriterData = l
	}
	for n := 0; len(todo) > 0; n++ {
		left, err := q.write(todo, a.drainLeft(q.attempt)) //nolint:contextcheck // a write that was cancelled may still happen
		q.settleWritten(todo, left)
		todo = left
		if len(todo) == 0 || !q.again(ctx, n, err, len(todo)) {
			break
		}
	}
	for i := range todo {
		if l, ok := todo[i].WriterData.(letter); ok {
			l.d.Return()
		}
	}
}

// again waits before the next try; false: the job was taken away.
func (q *deadLetters) again(ctx context.Context, n int, err error, count int) bool {
	if ctx.Err() != nil || errors.Is(err, errCut) {
		return ctx.Err() == nil
	}
	q.metrics.deadErrors.Inc()
	q.log.Error("dead letters could not be written, trying again", "count", count, "error", err)
	return pause(ctx, backoff(n, 50*time.Millisecond, 2*time.Second))
}

// settleWritten settles those of todo that are not left.
func (q *deadLetters) settleWritten(todo, left []kafka.Message) {
	open := make(map[*Delivery]bool, len(left))
	for i := range left {
		if l, ok := left[i].WriterData.(letter); ok {
			open[l.d] = true
		}
	}
	for i := range todo {
		if l, ok := todo[i].WriterData.(letter); ok && !open[l.d] {
			q.metrics.deadLetters.WithLabelValues(string(l.f.Class)).Inc()
			l.d.Done()
		}
	}
}

// errCut: a letter was too large; it has been cut and goes again at once.
var errCut = errors.New("the letter was cut")

// write tries once, for as long as it is given. It returns what is not known to
// be written, ready for the next try, and why.
func (q *deadLetters) write(msgs []kafka.Message, timeout time.Duration) ([]kafka.Message, error) {
	// Not the job's context: a write that was cancelled may still happen.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := tryWrite(ctx, q.batched, msgs)
	if err == nil {
		return nil, nil
	}
	left := unwritten(msgs, err)
	if !tooLarge(err) {
		return left, firstError(err)
	}
	return q.writeSingly(ctx, left)
}

// tryWrite begins nothing when the time is up: the client would write all the
// same, and only not wait for it.
func tryWrite(ctx context.Context, w *kafka.Writer, msgs []kafka.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.WriteMessages(ctx, msgs...)
}

// writeSingly sends each letter in a batch of its own, so that a broker's "too
// large" is about this letter and not about its company. That one is cut. Any
// other error is about the topic or the way to it, and ends the round.
func (q *deadLetters) writeSingly(ctx context.Context, msgs []kafka.Message) (left []kafka.Message, why error) {
	for i := range msgs {
		err := firstError(tryWrite(ctx, q.single, msgs[i:i+1]))
		switch {
		case err == nil:
			continue
		case !tooLarge(err):
			return append(left, msgs[i:]...), err
		case !cut(&msgs[i]):
			why = err
		case why == nil:
			why = errCut
		}
		left = append(left, msgs[i])
	}
	return left, why
}

func unwritten(msgs []kafka.Message, err error) []kafka.Message {
	each, ok := errors.AsType[kafka.WriteErrors](err)
	if !ok || len(each) != len(msgs) {
		return msgs
	}
	var left []kafka.Message
	for i := range msgs {
		if each[i] != nil {
			left = append(left, msgs[i])
		}
	}
	return left
}

// firstError avoids the text of the client's list of errors, which counts them.
func firstError(err error) error {
	if each, ok := errors.AsType[kafka.WriteErrors](err); ok {
		for _, e := range each {
			if e != nil {
				return e
			}
		}
	}
	return err
}

func tooLarge(err error) bool {
	if _, local := errors.AsType[kafka.MessageTooLargeError](err); local {
		return true
	}
	e := firstError(err)
	return errors.Is(e, kafka.MessageSizeTooLarge) || errors.Is(e, kafka.RecordListTooLarge)
}

// cut makes a letter smaller. First the value, to what a broker takes by
// default, then by halves, down to nothing; then the headers that are not about
// the dead letter; then the key. What is left is a few kilobytes. The headers
// say where the whole one lies. It returns false when nothing is left to cut.
func cut(m *kafka.Message) bool {
	size := len(m.Value)
	switch {
	case size > 0:
		m.Value = m.Value[:fitting(m)]
	case strip(m):
	case len(m.Key) > 0:
		m.Key = nil
	default:
		return false
	}
	if !hasHeader(m.Headers, headerTruncated) {
		m.Headers = append(m.Headers,
			kafka.Header{Key: headerTruncated, Value: []byte("true")},
			kafka.Header{Key: headerOriginalSize, Value: strconv.AppendInt(nil, int64(size), 10)})
	}
	return true
}

// fitting is how many bytes of the value to keep.
func fitting(m *kafka.Message) int {
	size, fit := len(m.Value), letterBytes-len(m.Key)
	for _, h := range m.Headers {
		fit -= len(h.Key) + len(h.Value) + 16
	}
	if fit <= 0 || fit >= size {
		return size / 2
	}
	return fit
}

// strip drops the headers that a letter can do without: foreign ones, and what
// a producer has put under one of our names though it is none of ours. It
// returns whether there were any.
func strip(m *kafka.Message) bool {
	var kept []kafka.Header
	for _, h := range m.Headers {
		if isOurs(h.Key) && len(h.Value) <= maxMessageBytes && !hasHeader(kept, h.Key) {
			kept = append(kept, h)
		}
	}
	stripped := len(kept) < len(m.Headers)
	m.Headers = kept
	return stripped
}

func isOurs(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset,
		headerOriginalTime, headerOriginalSize, headerTruncated, headerGroup, headerAttempt, headerFirstFailedAt,
		headerFailedAt, headerErrorClass, headerErrorCode, headerErrorMessage, headerNode, headerRedrive:
		return true
	}
	return false
}

func hasHeader(headers []kafka.Header, name string) bool {
	for _, h := range headers {
		if strings.EqualFold(h.Key, name) {
			return true
		}
	}
	return false
}

// message dresses a record as a dead letter. Key, value and foreign headers
// stay as they are, byte for byte.
func (q *deadLetters) message(l letter, now time.Time) kafka.Message {
	rec := &l.d.Job.Record
	set := q.headers(l, now)
	headers := make([]kafka.Header, 0, len(rec.Headers)+len(set))
	for _, h := range rec.Headers {
		if !replaced(h.Key, set) {
			headers = append(headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
	}
	return kafka.Message{Topic: deadTopic(rec.Topic), Key: rec.Key, Value: rec.Value, Headers: append(headers, set...)}
}

func replaced(name string, set []kafka.Header) bool {
	return hasHeader(set, name) || strings.EqualFold(name, headerTruncated) || strings.EqualFold(name, headerOriginalSize)
}

// headers are those the letter gets. What an earlier hop has said about the
// origin holds.
func (q *deadLetters) headers(l letter, now time.Time) []kafka.Header {
	rec := &l.d.Job.Record
	stamp := now.UTC().Format(time.RFC3339Nano)
	var set []kafka.Header
	add := func(name, value string) { set = append(set, kafka.Header{Key: name, Value: []byte(value)}) }
	if !hasOrigin(rec) {
		add(job.HeaderOriginalTopic, rec.Topic)
		add(job.HeaderOriginalPartition, strconv.Itoa(rec.Partition))
		add(job.HeaderOriginalOffset, strconv.FormatInt(rec.Offset, 10))
		add(headerOriginalTime, rec.Time.UTC().Format(time.RFC3339Nano))
	}
	add(headerGroup, q.group+"."+rec.Topic)
	add(headerAttempt, strconv.Itoa(l.f.Attempt))
	if !recordHas(rec, headerFirstFailedAt) {
		add(headerFirstFailedAt, stamp)
	}
	add(headerFailedAt, stamp)
	add(headerErrorClass, string(l.f.Class))
	add(headerErrorCode, clip(l.f.Code, maxCodeBytes))
	add(headerErrorMessage, clip(l.f.Message, maxMessageBytes))
	add(headerNode, clip(q.node, maxCodeBytes))
	return set
}

// hasOrigin tells whether an earlier hop has said where the record comes from.
// A part of it, or what can't be a place, would lead nowhere.
func hasOrigin(rec *job.Record) bool {
	_, perr := strconv.ParseUint(string(recordHeader(rec, job.HeaderOriginalPartition)), 10, 31)
	_, oerr := strconv.ParseUint(string(recordHeader(rec, job.HeaderOriginalOffset)), 10, 63)
	return topicName.Match(recordHeader(rec, job.HeaderOriginalTopic)) && perr == nil && oerr == nil
}

func recordHeader(rec *job.Record, name string) []byte {
	for i := range rec.Headers {
		if strings.EqualFold(rec.Headers[i].Key, name) {
			return rec.Headers[i].Value
		}
	}
	return nil
}

func recordHas(rec *job.Record, name string) bool {
	for i := range rec.Headers {
		if strings.EqualFold(rec.Headers[i].Key, name) {
			return true
		}
	}
	return false
}

// clip cuts text at a rune's edge.
func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
