package integration

import (
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

// One of the nodes that have started logs what the set-up lacks, once: here two partitions for three nodes. With three partitions
// none logs anything, and neither does the command.
func TestSetupCheckReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	for _, row := range []struct {
		partitions int
		lacks      string
	}{
		{2, "has 2 partitions for 3 nodes: 1 of them get no jobs of it"},
		{3, ""},
	} {
		s := w.scene(t, 300, row.partitions, 20*time.Millisecond, "log.level=debug")
		nodes := s.start(t, 3)
		const checked = "the set-up was checked"
		eventually(t, time.Minute, func() bool {
			for _, n := range nodes {
				if !strings.Contains(n.said(t), checked) {
					return false
				}
			}
			return true
		}, func() string { return "a node has not checked the set-up" })
		out, err := s.command(t, "config", "check", "--connect")
		if err != nil || strings.Contains(out, "warning: partitions") != (row.lacks != "") || row.lacks == "" && strings.Contains(out, "warning: ") {
			t.Errorf("config check --connect: %v\n%s", err, out)
		}
		findings, all := 0, ""
		for _, n := range nodes {
			said := n.said(t)
			findings += strings.Count(said, "the set-up lacks something")
			all += said
		}
		if row.lacks == "" && findings != 0 || row.lacks != "" && (findings != 1 || !strings.Contains(all, row.lacks)) {
			t.Errorf("%d partitions: %d findings of three nodes, want one of them if any to say %q:\n%s", row.partitions, findings, row.lacks, tail([]byte(all), 4000))
		}
		stop(t, nodes...)
	}
}
