// Package page is the operators' page: what the fleet does now, what holds its jobs up, and one control that sets the rate.
//
//	browser ──GET /, /static/…──► [Handler]        files that the binary holds
//	        ──/api/v1/…─────────► package api      every figure, every change
//
// The page loads nothing from elsewhere, and works without the internet. Its scripts are plain modules, without a build step;
// uPlot draws the chart. It holds no state: a second page shows the same.
//
// # What it does not do
//
// It knows nothing of the fleet. It asks for no token: the files are no secret, and the API asks for one.
//
// # How it works
//
// The page reads the stream of events and shows each one. Where none came for five seconds it says "unknown" and greys the
// figures, with their age. A change goes to the API with the revision that the operator saw. The answer says on which nodes it is
// in force.
//
// The content security policy allows no inline script or style, no other origin, no frame around the page, and no form that is
// sent without a script. Text of the fleet is only ever set as text, never as HTML. A token is kept in the tab's session storage,
// which ends with the tab.
//
// # Who owns which goroutine
//
// It starts none; net/http runs a handler on the goroutine of its connection.
//
// # Failure
//
// A file that can't be read from the binary is a panic of [Handler], at start. Everything else happens in the browser: a stream
// that breaks off is opened again, after half a second at first and ten seconds at most.
package page
