// Package lateness chooses the lateness of a limit whose guard is auto, and compares
// the spread with the way to the provider.
//
// A longer lateness lets more slots be used in time, and makes all slots lie
// further apart. The share of the cap that is used with lateness L is
//
//	W / (W + L + spread) × share of the slots that are in time with L
//
// and the fleet takes the L for which that is largest. Slots count fleet-wide and
// each once, so a node weighs as much as it has slots.
//
// Each node counts how late its slots were ([Counter]) and reports the counts to
// Redis ([Report.Send]). Redis gives the counts of the fleet to one node a second.
// That node chooses ([Choose]), and changes the settings if they are still those
// that it chose for. The choice is pure: counts in, a class out.
// Where no node can send because Redis answers too slowly for the lateness, there are no
// counts, and a node whose jobs wait has the lateness raised ([Reporter.Raise]).
//
// Each node also notes the round trip of every connection that it opens to the
// provider, and reports it with its slots. [RoundTrips.Fit] compares how much the
// round trips vary with the spread. A call takes the way there alone; how much that
// differs is taken to be no more than how much round trips do. Where a proxy ends the
// connection, the way behind it is not seen.
//
// The package reserves nothing and starts no goroutine. A [Reporter] belongs to the limiter's
// goroutine; a [Counter] and [TripNotes] may be used by any. A report that fails changes nothing: the lateness
// stays as it is.
package lateness
