// Package job is the contract between producers and dispatcher: what a Kafka record
// must hold to be a job, and how it is read.
//
// It imports no Kafka client, no Redis and no provider. A producer that imports it
// needs nothing but the standard library.
//
// # What it does not do
//
// It does not decide what happens to a record that is no job, or asks for something
// that is not supported: [Decode] returns an [Error] with one of a closed set of
// reasons, and the consumer writes the original bytes to the dead letters.
//
// # How it works
//
// [Decode] reads each header once. It reads the value only if no header holds the
// job's id: then it scans for a top-level "id" and stops at the first one. The scan
// decodes nothing else, so it costs as much as reading the bytes before the id, and
// the size limit bounds it.
//
// The package starts no goroutine, keeps no state and reads no clock.
//
// # Failure
//
// Every error of [Decode] is an [*Error]. Its text names the field and the rule, never
// a value, because an id may be a phone number.
//
// # Reasons
//
// CloudEvents 1.0, Kafka binding, both modes. A record is an event when its content type
// begins with application/cloudevents (structured mode, JSON only), or when one of
// ce_specversion, ce_id, ce_source, ce_type is there (binary mode). Then all four must be
// there, or the record is a decode error that names the attribute. Other ce_ headers alone are
// foreign headers. In structured mode all of the value must be JSON; batches and other formats
// are refused.
//
// The header idempotency-key wins over source|id. The JSON field id of an event's data is
// never read. partitionkey means nothing: the record's key is the order.
//
// An event is sent as it came, under its content type: in structured mode the whole event, in
// binary mode the data, with the attributes as ce- headers. With cloud_events: binary a
// structured event is taken apart: its data (decoded from base64, or out of its JSON string
// where the data is no JSON) is the body.
//
// A job that is no event pays one comparison a header.
package job
