// Package feedback slows a fleet down when its provider refuses calls for their rate (429 and the like).
//
// # What it does
//
// Each node counts the units of the calls that it makes, and of those that the provider
// refuses ([Counter]). From the first refused call on, each node reports its counts to
// Redis each 400 ms ([Reporter.Report]). Redis hands the counts of all nodes to one node a
// second. That node decides with [Next] what is left of the limit, a [limit.Slowdown], and
// writes it. Every reservation keeps to it from then on. At the operator's cap, and without
// a refused call for seven seconds, the slowdown ends, and nothing is reported any more.
//
// Three rules decide:
//
//   - The provider refuses at least half of the calls, or all of three to nine: nothing is
//     granted for as long as it asks, a minute at most. Then a tenth of the effective cap is
//     tried, and twice as much after each second without a refused call.
//   - It refuses more than one in a hundred: the effective cap becomes a little less than
//     the rate that it accepted. That is judged over two windows, and five seconds at most.
//   - It refuses nothing for seven seconds: the effective cap rises by a fiftieth with each
//     look, about once a second, and by a twenty-fifth after twice as long, up to the operator's cap.
//     A minute after the last lowering or block, refused calls that are too few to lower it count as none.
//
// A provider may refuse calls for another reason than their rate, such as one recipient.
// Lowering the cap does not help then. After three tries without far fewer refused calls the
// cap is at once where it was, and is not lowered for a minute.
//
// # What it does not
//
// It never lets more calls go than the operator's cap allows. It does not hold single jobs:
// they wait for as long as the provider asks, whatever this package decides. If Redis loses
// its data, the slowdown ends, and the fleet slows down again within seconds.
//
// # Goroutines
//
// It has none. [Counter] may be used from any goroutine. A [Reporter] belongs to the reserving
// goroutine of package throttle.
package feedback
