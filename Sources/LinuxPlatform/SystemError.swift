internal import Glibc
internal import Seams

/// The operating system's error numbers as sentences for an operator.
enum SystemError {
    /// The C library's text of an error, with its number.
    static func text(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        let isKnown = strerror_r(code, &buffer, buffer.count) == 0
        let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        let text = isKnown ? String(decoding: bytes, as: UTF8.self) : ""
        return text.isEmpty ? "error \(code)" : "\(text), error \(code)"
    }

    static func disk(_ code: Int32, _ attempt: String, _ path: String) -> DiskError {
        let kind: DiskError.Code
        let reason: String
        switch code {
        case ENOSPC:
            kind = .full
            reason = "the file system has no space left; free some or move the data directory"
        case EDQUOT:
            kind = .full
            reason = "the disk quota of user \(geteuid()) is used up; raise it or free some space"
        case EMFILE, ENFILE:
            kind = .full
            reason = "there are too few file descriptors; raise `ulimit -n`"
        case EACCES, EPERM:
            kind = .denied
            reason = "user \(geteuid()) has no permission; change the owner or the mode of the path"
        case EROFS:
            kind = .denied
            reason = "the file system is mounted read-only; remount it or choose another directory"
        case ENOENT:
            kind = .missing
            reason = "there is no such file or directory"
        case ENOTDIR, EEXIST:
            kind = .notADirectory
            reason = "a component of the path is not a directory"
        case EIO:
            kind = .failed
            reason = "the device reported an input/output error; check the kernel's log"
        default:
            kind = .failed
            reason = text(code)
        }
        return DiskError(
            code: kind,
            path: path,
            description: "cannot \(attempt) \(path): \(reason)"
        )
    }

    static func network(_ code: Int32, _ attempt: String, _ address: SocketAddress) -> NetworkError
    {
        let kind: NetworkError.Code
        let reason: String
        switch code {
        case EADDRINUSE:
            kind = .addressInUse
            reason =
                "another process has this port (perhaps another divan-server); "
                + "stop that one or choose another port"
        case EADDRNOTAVAIL:
            kind = .addressNotAvailable
            reason = "this machine has no such address; choose one of its own"
        case EACCES, EPERM:
            kind = .permissionDenied
            reason =
                "user \(geteuid()) may not use this port; choose one above 1023 or grant "
                + "CAP_NET_BIND_SERVICE"
        case ECONNREFUSED:
            kind = .refused
            reason = "no process listens there; start the server or correct the address"
        case ETIMEDOUT:
            kind = .other
            reason = "the connection timed out; check the address and the firewalls"
        default:
            kind = .other
            reason = text(code)
        }
        return NetworkError(code: kind, description: "cannot \(attempt) \(address): \(reason)")
    }

    static func child(_ code: Int32, _ path: String) -> ChildError {
        let kind: ChildError.Code
        let reason: String
        switch code {
        case ENOENT, ENOTDIR:
            kind = .missing
            reason = "there is no such program; install it beside the running program"
        case EACCES, EPERM:
            kind = .denied
            reason = "user \(geteuid()) may not execute it; correct its mode and its file system's"
        case EAGAIN:
            kind = .noResources
            reason = "there are too many processes; raise `ulimit -u` or the container's limit"
        case EMFILE, ENFILE:
            kind = .noResources
            reason = "there are too few file descriptors; raise `ulimit -n`"
        case ENOMEM:
            kind = .noResources
            reason = "there is too little memory; free some or lower the bucket quotas"
        case ENOEXEC:
            kind = .other
            reason = "the file is not a program for this machine; reinstall it"
        default:
            kind = .other
            reason = text(code)
        }
        return ChildError(code: kind, description: "cannot start \(path): \(reason)")
    }
}
