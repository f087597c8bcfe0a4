package api_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/api"
	"dispatcher/internal/limits"
	"dispatcher/internal/redisclient"
)

// FuzzRequest: no request makes the server fail, or answer with more than a bound. One that is refused changes nothing in Redis.
// No node works here, so that nothing else changes it. With lost, Redis holds no limit.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, path, headers, body string }{
		{"GET", "limits", "", ""},
		{"GET", "limits/provider?key=%2B4670", "", ""},
		{"PATCH", "limits/provider", "If-Match: \"1\"", `{"cap":300,"window":"1s","for":"10m","why":"less"}`},
		{"PATCH", "limits/provider?wait=yes", "If-Match: *", `{"max_step":"NaN","paused":1,"weights":"a=1","force":true}`},
		{"PATCH", "limits/provider", "If-Match: W/\"1\"\r\nContent-Type: text/plain", `{"cap":1e400,"guard":"auto","horizon":"-1ns"}`},
		{"POST", "limits/provider/pause", "Sec-Fetch-Site: cross-site", `{"for":"15m"}`},
		{"POST", "limits/provider/pause", "Transfer-Encoding: chunked", "f\r\n{\"for\":\"15m\"}\r\n0\r\n\r\n"},
		{"POST", "limits/provider/resume", "", ""},
		{"POST", "limits/provider/undo", "", `{"to":-1}`},
		{"POST", "limits/provider/undo", "If-Match: *", `{}`},
		{"POST", "limits/recipient/release", "", `{"key":"\u0000"}`},
		{"POST", "rules?wait=false", "", `{"kind":"hold","when":"job.headers[\"a\"] == \"b\"","for":"1h"}`},
		{"POST", "rules", "", `{"kind":"cancel","when":"true","until":"2026-13-01T00:00:00Z"}`},
		{"DELETE", "rules/1", "", `{"why":"` + strings.Repeat("x", 501) + `"}`},
		{"GET", "rules/preview?when=len(job.id)", "", ""},
		{"GET", "forecast?cap=-3&window=1s", "", ""},
		{"GET", "calls?seconds=3600", "", ""},
		{"GET", "why?job=a/1/2", "", ""},
		{"HEAD", "events", "", ""},
		{"OPTIONS", "*", "", ""},
		{"GET", "limits/%00%ff/../..//history;n=1?n=%zz", "Host: a b", ""},
	} {
		f.Add(seed.method, seed.path, seed.headers, seed.body, false)
		f.Add(seed.method, seed.path, seed.headers, seed.body, true)
	}
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(server.Close)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	f.Cleanup(func() { _ = rdb.Close() })
	cfg := config(f)
	handler := api.New(api.Options{Reader: limits.NewReader(cfg, rdb)})
	fill := func(lost bool) {
		server.FlushAll()
		if lost {
			return
		}
		for _, name := range []string{"provider", "recipient"} {
			stated, _ := cfg.Stated(name)
			server.HSet("dispatcher:{default}:limit:"+name, "settings", stated.Settings().Pack())
		}
	}
	f.Fuzz(func(t *testing.T, method, path, headers, body string, lost bool) {
		if headers != "" {
			headers += "\r\n"
		}
		if !strings.Contains(strings.ToLower(headers), "transfer-encoding") {
			headers += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
		}
		text := method + " /api/v1/" + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || r.URL.Query().Get("wait") == "true" {
			return // net/http answers it, or it takes three seconds
		}
		r.RemoteAddr = "127.0.0.1:1"
		fill(lost)
		before, began := server.Dump(), time.Now()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		const most, longest = 1 << 20, 10 * time.Second
		switch took := time.Since(began); {
		case w.Code > 500 && w.Code != http.StatusServiceUnavailable, w.Code == 500, w.Code < 200, w.Code >= 300 && w.Code < 400:
			t.Errorf("got %d %s", w.Code, w.Body)
		case w.Body.Len() > most, took > longest:
			t.Errorf("got %d bytes after %s", w.Body.Len(), took)
		case w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json":
			t.Errorf("got %d of type %q, want a problem", w.Code, w.Header().Get("Content-Type"))
		case w.Code >= 400 && !bytes.Contains(w.Body.Bytes(), []byte(`"status":`+strconv.Itoa(w.Code))):
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if after := server.Dump(); w.Code >= 400 && after != before {
			t.Errorf("got %d, and Redis holds\n%s, want\n%s", w.Code, after, before)
		}
	})
}
