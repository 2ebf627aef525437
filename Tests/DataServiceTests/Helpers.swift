import Bytes
import Credentials
import DataService
import TestWorld
import Vocabulary
import Wire

/// A request by the name of its command; without a name, tests pass the byte.
func frame(
    _ opcode: Opcode,
    key: [UInt8] = [],
    value: [UInt8] = [],
    extras: [UInt8] = [],
    vBucket: UInt16 = 0,
    opaque: UInt32 = 0
) -> [UInt8] {
    frame(
        opcode.rawValue,
        key: key,
        value: value,
        extras: extras,
        vBucket: vBucket,
        opaque: opaque
    )
}

/// Requests by name; a test states only the numbers that matter to it.
enum Ask {
    static func get(_ key: String, opaque: UInt32 = 0) -> [UInt8] { on(0x00, key, opaque: opaque) }

    static func set(
        _ key: String,
        _ value: String,
        expiry: UInt32 = 0,
        cas: UInt64 = 0,
        opaque: UInt32 = 0
    ) -> [UInt8] {
        on(0x01, key, Array(value.utf8), extras: big(UInt32(7)) + big(expiry), opaque, cas)
    }

    static func counter(
        _ opcode: UInt8,
        _ key: String,
        delta: UInt64,
        initial: UInt64 = 0,
        expiry: UInt32 = 0
    ) -> [UInt8] {
        on(opcode, key, extras: big(delta) + big(initial) + big(expiry))
    }

    /// Any request for a document, sent to the vBucket of its key.
    static func on(
        _ opcode: UInt8,
        _ key: String,
        _ value: [UInt8] = [],
        extras: [UInt8] = [],
        _ opaque: UInt32 = 0,
        _ cas: UInt64 = 0,
        datatype: UInt8 = 0,
        framing: [UInt8]? = nil
    ) -> [UInt8] {
        frame(
            opcode,
            key: Array(key.utf8),
            value: value,
            extras: extras,
            vBucket: VBucketID(ofKey: Array(key.utf8), count: 64).number,
            opaque: opaque,
            cas: cas,
            datatype: datatype,
            framing: framing
        )
    }

    static func on(
        _ opcode: Opcode,
        _ key: String,
        _ value: [UInt8] = [],
        extras: [UInt8] = [],
        _ opaque: UInt32 = 0,
        _ cas: UInt64 = 0,
        datatype: UInt8 = 0,
        framing: [UInt8]? = nil
    ) -> [UInt8] {
        on(
            opcode.rawValue,
            key,
            value,
            extras: extras,
            opaque,
            cas,
            datatype: datatype,
            framing: framing
        )
    }

    static func on(_ opcode: UInt8, _ key: String, opaque: UInt32) -> [UInt8] {
        on(opcode, key, [], extras: [], opaque)
    }

    static func hello(_ features: [UInt16]) -> [UInt8] {
        frame(.hello, key: Array("{\"a\":\"tests\"}".utf8), value: features.flatMap { big($0) })
    }

    /// PLAIN with the bucket's name and no password, as old clients send it.
    static func guest(of bucket: String) -> [UInt8] {
        let value: [UInt8] = [0] + Array(bucket.utf8) + [0]
        return frame(.saslAuth, key: Array("PLAIN".utf8), value: value)
    }
}

/// Feature codes of HELLO.
enum Features {
    static let mutationSeqno: UInt16 = 0x04
    static let extendedErrors: UInt16 = 0x07
    static let json: UInt16 = 0x0b
    static let unordered: UInt16 = 0x0e
    static let tracing: UInt16 = 0x0f
    static let alternativeRequest: UInt16 = 0x10
    static let preserveTTL: UInt16 = 0x14
    static let usual = [mutationSeqno, extendedErrors, json, alternativeRequest, preserveTTL]
}

extension TestWorld {
    /// "Administrator", "secret".
    func admitAdministrator() {
        let stored = Array("secret".utf8).withUnsafeBytes { password in
            StoredCredentials.derive(password: ByteView(password), iterations: 16) { _ in
                [UInt8](repeating: 7, count: StoredCredentials.saltByteCount)
            }
        }
        service.setCredentials(user: "Administrator", stored: stored)
    }

    /// A client with the usual features, logged in as the guest of `bucket`.
    func client(
        of bucket: String,
        features: [UInt16] = Features.usual,
        reactor: Int = 0
    ) -> Client {
        let client = Client(self, reactor: reactor)
        client.send(Ask.hello(features) + Ask.guest(of: bucket))
        let statuses = client.replies().map(\.status)
        precondition(statuses == [0, 0], "the guest was refused: \(statuses)")
        return client
    }
}

extension TestWorld {
    /// A restarted node whose documents are not read before the lane "reader" is released.
    static func reopened(_ directory: String) throws -> TestWorld {
        let world = TestWorld(directory: directory)
        world.lanes.hold("reader")
        try world.service.open(settings("guests", .persistent))
        return world
    }
}

extension Ask {
    /// A path of a sub-document lookup.
    static func path(_ opcode: UInt8, _ flags: UInt8, _ path: String) -> [UInt8] {
        [opcode, flags] + big(UInt16(path.utf8.count)) + Array(path.utf8)
    }

    /// A path of a sub-document mutation.
    static func path(
        _ opcode: UInt8,
        _ flags: UInt8,
        _ path: String,
        _ value: String
    ) -> [UInt8] {
        [opcode, flags] + big(UInt16(path.utf8.count)) + big(UInt32(value.utf8.count))
            + Array(path.utf8) + Array(value.utf8)
    }
}

extension Reply {
    /// The statuses and texts in the answer of a sub-document lookup.
    var lookupResults: [String] {
        var rest = value[...]
        var found: [String] = []
        while rest.count >= 6 {
            let status = rest.prefix(2).reduce(0) { $0 << 8 | Int($1) }
            let count = rest.dropFirst(2).prefix(4).reduce(0) { $0 << 8 | Int($1) }
            let text = String(decoding: rest.dropFirst(6).prefix(count), as: UTF8.self)
            found.append(status == 0 ? text : String(status, radix: 16))
            rest = rest.dropFirst(6 + count)
        }
        return found
    }
}
