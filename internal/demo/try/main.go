package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"dispatcher/internal/demo"
)

func main() {
	n := flag.Int("nodes", 3, "")
	c := flag.Int64("cap", 300, "")
	j := flag.Int("jobs", 3000, "")
	v := flag.Bool("v", false, "")
	flag.Parse()
	var l *slog.Logger
	if *v {
		l = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r, err := demo.Run(context.Background(), demo.Options{Nodes: *n, Cap: *c, Window: time.Second, Jobs: *j, Logger: l}, func(demo.Snapshot) {})
	b, _ := json.Marshal(r)
	fmt.Println(string(b), err)
}
