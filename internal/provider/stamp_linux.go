//go:build linux && (amd64 || arm64)

package provider

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// kernelReader reads a TCP connection together with the kernel's time of what came (SO_TIMESTAMPNS). On the loopback that is when the
// sender's write was carried out, whatever holds this process up. Where one read returns several segments, it is the time of the last.
type kernelReader struct {
	raw  syscall.RawConn
	recv func(fd uintptr) bool // once: a closure for each read would be garbage

	// Of the read that is being made:
	into    []byte
	control [64]byte
	n, used int
	err     error
}

// newKernelReader is nil where the kernel has no such times.
func newKernelReader(c net.Conn) *kernelReader {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	refused := error(nil)
	err = raw.Control(func(fd uintptr) {
		refused = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
	})
	if err != nil || refused != nil {
		return nil
	}
	k := &kernelReader{raw: raw}
	k.recv = k.receive
	return k
}

func (k *kernelReader) receive(fd uintptr) bool {
	for {
		k.n, k.used, _, _, k.err = syscall.Recvmsg(int(fd), k.into, k.control[:], 0)
		if k.err != syscall.EINTR { //nolint:errorlint // a number of the kernel, never wrapped
			return k.err != syscall.EAGAIN //nolint:errorlint // as above
		}
	}
}

// read is Read, and when the bytes came by the wall clock; zero: the kernel does not say.
func (k *kernelReader) read(p []byte) (int, time.Time, error) {
	k.into = p
	err := k.raw.Read(k.recv)
	k.into = nil
	switch {
	case err != nil:
		return 0, time.Time{}, err //nolint:wrapcheck // the connection's own error
	case k.err != nil:
		return 0, time.Time{}, os.NewSyscallError("recvmsg", k.err)
	case k.n == 0 && len(p) > 0:
		return 0, time.Time{}, io.EOF
	}
	return k.n, k.time(), nil
}

// time is that of the control message. Its header is the length, the level and the type; two words of 8 bytes follow, seconds and nanoseconds.
func (k *kernelReader) time() time.Time {
	const level, kind = 8, 12
	at, native := syscall.CmsgLen(0), binary.NativeEndian
	if k.used < at+16 || native.Uint32(k.control[level:]) != syscall.SOL_SOCKET || native.Uint32(k.control[kind:]) != syscall.SCM_TIMESTAMPNS {
		return time.Time{}
	}
	return time.Unix(int64(native.Uint64(k.control[at:])), int64(native.Uint64(k.control[at+8:]))) //nolint:gosec // the kernel's
}
