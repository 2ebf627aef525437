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

    static func disk(_ code: Int32, _ attempt: String, at path: String) -> DiskError {
        let (kind, reason): (DiskError.Code, String) =
            switch code {
            case ENOSPC:
                (.full, "the file system has no space left; free some or move the data directory")
            case EDQUOT:
                (
                    .full,
                    "the disk quota of user \(geteuid()) is used up; raise it or free some space"
                )
            case EMFILE, ENFILE: (.full, "there are too few file descriptors; raise `ulimit -n`")
            case EACCES, EPERM:
                (
                    .denied,
                    "user \(geteuid()) has no permission; change the owner or the mode of the path"
                )
            case EROFS:
                (
                    .denied,
                    "the file system is mounted read-only; remount it or choose another directory"
                )
            case ENOENT: (.missing, "there is no such file or directory")
            case ENOTDIR, EEXIST: (.notADirectory, "a component of the path is not a directory")
            case EIO: (.failed, "the device reported an input/output error; check the kernel's log")
            default: (.failed, text(code))
            }
        return DiskError(
            code: kind,
            path: path,
            description: "cannot \(attempt) \(path): \(reason)"
        )
    }

    static func network(_ code: Int32, _ attempt: String, at address: SocketAddress) -> NetworkError
    {
        let (kind, reason): (NetworkError.Code, String) =
            switch code {
            case EADDRINUSE:
                (
                    .addressInUse,
                    "another process has this port (perhaps another divan-server); "
                        + "stop that one or choose another port"
                )
            case EADDRNOTAVAIL:
                (.addressNotAvailable, "this machine has no such address; choose one of its own")
            case EACCES, EPERM:
                (
                    .permissionDenied,
                    "user \(geteuid()) may not use this port; choose one above 1023 or grant "
                        + "CAP_NET_BIND_SERVICE"
                )
            case ECONNREFUSED:
                (.refused, "no process listens there; start the server or correct the address")
            case ETIMEDOUT:
                (.other, "the connection timed out; check the address and the firewalls")
            default: (.other, text(code))
            }
        return NetworkError(code: kind, description: "cannot \(attempt) \(address): \(reason)")
    }

    static func child(_ code: Int32, _ path: String) -> ChildError {
        let (kind, reason): (ChildError.Code, String) =
            switch code {
            case ENOENT, ENOTDIR:
                (.missing, "there is no such program; install it beside the running program")
            case EACCES, EPERM:
                (
                    .denied,
                    "user \(geteuid()) may not execute it; correct its mode and its file system's"
                )
            case EAGAIN:
                (
                    .noResources,
                    "there are too many processes; raise `ulimit -u` or the container's limit"
                )
            case EMFILE, ENFILE:
                (.noResources, "there are too few file descriptors; raise `ulimit -n`")
            case ENOMEM:
                (.noResources, "there is too little memory; free some or lower the bucket quotas")
            case ENOEXEC: (.other, "the file is not a program for this machine; reinstall it")
            default: (.other, text(code))
            }
        return ChildError(code: kind, description: "cannot start \(path): \(reason)")
    }
}
