internal import Glibc
internal import Seams

extension SocketAddress {
    /// Calls `body` with the address in the kernel's form; nil if `host` is not an IP address.
    func withSystemAddress<Result>(
        _ body: (_ family: Int32, UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        var four = sockaddr_in()
        if inet_pton(AF_INET, host, &four.sin_addr) == 1 {
            four.sin_family = sa_family_t(AF_INET)
            four.sin_port = port.bigEndian
            return withUnsafeBytes(of: &four) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) { address in
                    address.baseAddress.map { body(AF_INET, $0, socklen_t(bytes.count)) }
                }
            }
        }
        var six = sockaddr_in6()
        guard inet_pton(AF_INET6, host, &six.sin6_addr) == 1 else { return nil }
        six.sin6_family = sa_family_t(AF_INET6)
        six.sin6_port = port.bigEndian
        return withUnsafeBytes(of: &six) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { address in
                address.baseAddress.map { body(AF_INET6, $0, socklen_t(bytes.count)) }
            }
        }
    }

    /// The address that `fill` (accept4, getsockname) stores; nil if `fill` fails.
    static func filled(
        by fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool
    ) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let isFilled = withUnsafeMutableBytes(of: &storage) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { address in
                address.baseAddress.map { fill($0, &length) } ?? false
            }
        }
        return isFilled ? SocketAddress(storage) : nil
    }

    /// The local address of a socket; nil with errno if it cannot be read.
    static func local(of descriptor: Int32) -> SocketAddress? {
        filled { getsockname(descriptor, $0, $1) == 0 }
    }

    private init(_ storage: sockaddr_storage) {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let length = socklen_t(text.count)
        var port: UInt16 = 0
        withUnsafeBytes(of: storage) { bytes in
            if Int32(storage.ss_family) == AF_INET6 {
                var six = bytes.load(as: sockaddr_in6.self)
                port = UInt16(bigEndian: six.sin6_port)
                inet_ntop(AF_INET6, &six.sin6_addr, &text, length)
            } else {
                var four = bytes.load(as: sockaddr_in.self)
                port = UInt16(bigEndian: four.sin_port)
                inet_ntop(AF_INET, &four.sin_addr, &text, length)
            }
        }
        let digits = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        self.init(host: String(decoding: digits, as: UTF8.self), port: port)
    }
}
