// Package consumer reads jobs from Kafka and settles them: groups, fetching,
// the ledger of open offsets, order by key, commits and dead letters.
//
// It does not wait for a rate limit, call a provider or decide what a result
// means; it hands out a [Delivery] and carries out what it is told.
package consumer
