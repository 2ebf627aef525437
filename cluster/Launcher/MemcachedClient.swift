internal import Bytes
internal import Foundation

/// The data port of one node: memcached binary frames, log in, select a bucket.
///
/// Enough to see that a bucket serves and to fill it; an application takes one of the official
/// clients. The password goes in the clear (SASL PLAIN), which is fine on loopback only.
final class MemcachedClient {
    let socket: Socket
    private var received: [UInt8] = []

    enum Opcode: UInt8 {
        case set = 0x01
        case saslAuthenticate = 0x21
        case selectBucket = 0x89
    }

    struct Reply {
        let status: UInt16
        let value: [UInt8]
    }

    init(port: Int) throws {
        socket = try Socket(port: port)
    }

    /// Logs in as the administrator, or, with the name of a password-less bucket and no password,
    /// as clients of long ago do, which selects that bucket as well.
    func logIn(user: String, password: String) throws -> Reply {
        try call(.saslAuthenticate, key: "PLAIN", value: Array("\0\(user)\0\(password)".utf8))
    }

    func selectBucket(_ name: String) throws -> Reply {
        try call(.selectBucket, key: name)
    }

    /// Sends one request and waits for its answer.
    private func call(_ opcode: Opcode, key: String, value: [UInt8] = []) throws -> Reply {
        let frame = ByteWriter()
        MemcachedClient.append(opcode, key: Array(key.utf8), value: value, to: frame)
        try socket.send(frame.bytes)
        return try receive()
    }

    /// The next answer.
    func receive() throws -> Reply {
        while true {
            let (reply, length) = try received.withUnsafeBytes { buffer in
                try MemcachedClient.reply(in: ByteView(buffer))
            }
            if let reply {
                received.removeFirst(length)
                return reply
            }
            let more = try socket.receive()
            guard !more.isEmpty else { throw SocketError("the node ended the connection") }
            received += more
        }
    }

    private static func reply(in view: ByteView) throws -> (Reply?, length: Int) {
        guard let length = try frameLength(in: view) else { return (nil, 0) }
        let head = 24 + Int(view.bigEndian(at: 2, as: UInt16.self)) + Int(view[4])
        let value = view.slice(head, length - head).bytes
        return (Reply(status: view.bigEndian(at: 6, as: UInt16.self), value: value), length)
    }

    /// The length of the answer that `view` begins with; nil where it is not whole yet.
    private static func frameLength(in view: ByteView) throws -> Int? {
        guard view.count >= 24 else { return nil }
        guard view[0] == 0x81 else {
            throw Refusal("The data port does not answer in memcached's binary protocol.")
        }
        let length = 24 + Int(view.bigEndian(at: 8, as: UInt32.self))
        return view.count >= length ? length : nil
    }

    /// Appends a request frame: header, extras, key, value (kv.md, section 0).
    static func append(
        _ opcode: Opcode,
        key: [UInt8],
        extras: [UInt8] = [],
        value: [UInt8] = [],
        vBucket: UInt16 = 0,
        to frame: ByteWriter
    ) {
        frame.append(UInt8(0x80))
        frame.append(opcode.rawValue)
        frame.append(bigEndian: UInt16(key.count))
        frame.append(UInt8(extras.count))
        frame.append(UInt8(0))
        frame.append(bigEndian: vBucket)
        frame.append(bigEndian: UInt32(extras.count + key.count + value.count))
        frame.append(bigEndian: UInt32(0))
        frame.append(bigEndian: UInt64(0))
        frame.append(extras)
        frame.append(key)
        frame.append(value)
    }
}
