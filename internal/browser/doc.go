// Package browser lets tests use the operators' page in a real Chromium: it opens one tab, types, presses keys, waits for
// texts, and takes pictures. It knows nothing of what the page
// means, but for the steps that several tests take.
//
// A test that has no Chromium is skipped, or fails where DISPATCHER_TEST_REQUIRE_BROWSER=1. Pictures go to the directory
// DISPATCHER_TEST_SHOTS, else to the test's artifacts. DISPATCHER_TEST_AXE names the file of axe-core (axe.min.js); without it
// [Tab.Accessible] checks nothing.
//
// The goroutines are chromedp's. They end with the test.
package browser
