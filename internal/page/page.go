package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var embedded embed.FS

// policy lets the page load nothing but its own files, and ask nothing but the API beside it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const index = "static/index.html"

// kinds are the types of the files. The system's table may lack them.
var kinds = map[string]string{ //nolint:gochecknoglobals // a constant table
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
}

// file is one file of the page.
type file struct {
	data []byte
	kind string
	tag  string // entity tag
}

// Handler serves the page at / and its files under /static/.
func Handler() http.Handler { return &handler{readAll(embedded)} }

type handler struct{ files map[string]file }

// readAll reads all files. The binary holds them, so an error is a fault of the build.
func readAll(from fs.FS) map[string]file {
	files := map[string]file{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		files[name] = file{data, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:16]) + `"`}
		return nil
	})
	if err != nil {
		panic("page: " + err.Error())
	}
	return files
}

// ServeHTTP answers with a file. A browser keeps it, and asks each time whether it is still the same.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = index
	}
	f, found := h.files[name]
	if !found {
		http.Error(w, "the page has no such file", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.tag)
	header.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.data))
}
