import Glibc
import LinuxPlatform

/// What a confined process may try, with descriptors that it opened before.
struct Attempts {
    private let stream = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    private let datagrams = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
    private let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    private let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    private var address: sockaddr_in
    private var laterListener: Int32 = -1

    /// Opens a listener with a connection that waits to be accepted.
    init() {
        address = Attempts.claimPort(listener)
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafePointer(to: &address) { place in
            place.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = connect(client, address, length)
            }
        }
    }

    /// Opens another listener, between the steps of the confinement.
    mutating func claimPort() {
        laterListener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        _ = Attempts.claimPort(laterListener)
    }

    /// Binds a socket to a free port; its address.
    private static func claimPort(_ listener: Int32) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { place in
            place.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = bind(listener, address, length)
                _ = listen(listener, 8)
                _ = getsockname(listener, address, &length)
            }
        }
        return address
    }

    private func isListening(_ socket: Int32) -> Int {
        var (value, length) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        guard getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 else { return -1 }
        return value == 1 ? 0 : -Int(EINVAL)
    }

    /// By name: `allowed`, or the number of the error.
    func outcomes() -> [(String, String)] {
        var address = address
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        func withAddress(_ body: (UnsafePointer<sockaddr>) -> Int) -> Int {
            withUnsafePointer(to: &address) { place in
                place.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0) }
            }
        }
        let path = "/tmp/divan-stand-in-\(getpid())"
        let fastOpen: Int32 = 0x2000_0000
        let attempts: [(String, () -> Int)] = [
            ("read a file", { Int(open("/etc/passwd", O_RDONLY)) }),
            ("create a file", { Int(open(path, O_WRONLY | O_CREAT, 0o600)) }),
            ("make a directory", { Int(mkdir(path, 0o700)) }),
            ("remove a file", { Int(unlink("/etc/no-such-file")) }),
            ("make a socket", { Int(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)) }),
            ("connect", { withAddress { Int(connect(stream, $0, length)) } }),
            ("bind", { withAddress { Int(bind(stream, $0, length)) } }),
            ("listen", { Int(listen(stream, 1)) }),
            ("send a datagram", { withAddress { sendto(datagrams, "x", 1, 0, $0, length) } }),
            ("open by sending", { withAddress { sendto(stream, "x", 1, fastOpen, $0, length) } }),
            ("send with the flag", { send(stream, "x", 1, fastOpen) }),
            ("execute", { Int(execv("/bin/true", [nil])) }),
            ("spawn", { spawn() }),
            ("signal a process", { Int(kill(getppid(), 0)) }),
            ("mount", { Int(mount("none", "/mnt", "tmpfs", 0, nil)) }),
            ("direct signals", { Int(fcntl(listener, F_SETOWN, getppid())) }),
            ("raise a limit", { raiseLimit() }),
            ("make code", { map(PROT_READ | PROT_WRITE | PROT_EXEC) }),
            ("protect as code", { protectAsCode() }),
            ("make memory", { map(PROT_READ | PROT_WRITE) }),
            ("accept and answer", { acceptAndAnswer() }),
            ("start a thread", { startThread() }),
            ("listen before the second step", { isListening(laterListener) }),
            ("set a flag", { Int(fcntl(listener, F_SETFL, O_NONBLOCK)) }),
        ]
        return attempts.map { name, attempt in
            let result = attempt()
            return (name, result < 0 ? "\(result == -1 ? errno : Int32(-result))" : "allowed")
        }
    }

    private func spawn() -> Int {
        var process = pid_t()
        return -Int(posix_spawn(&process, "/bin/true", nil, nil, [nil], [nil]))
    }

    private func raiseLimit() -> Int {
        var limit = rlimit(rlim_cur: 100, rlim_max: 100)
        return Int(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit))
    }

    private func map(_ protection: Int32) -> Int {
        mmap(nil, 4_096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0
    }

    private func protectAsCode() -> Int {
        let access = PROT_READ | PROT_WRITE
        guard let page = mmap(nil, 4_096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) else {
            return 0
        }
        return Int(mprotect(page, 4_096, PROT_READ | PROT_EXEC))
    }

    private func acceptAndAnswer() -> Int {
        let accepted = accept(listener, nil, nil)
        guard accepted >= 0 else { return -1 }
        var byte = UInt8(7)
        guard send(accepted, &byte, 1, 0) == 1 else { return -1 }
        return recv(client, &byte, 1, 0)
    }

    private func startThread() -> Int {
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, { _ in nil }, nil)
        guard code == 0 else { return -Int(code) }
        return -Int(pthread_join(thread, nil))
    }
}
