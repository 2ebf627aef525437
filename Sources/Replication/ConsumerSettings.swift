/// Why a setting of an outside consumer is refused, in a sentence for its author.
package enum ConsumerRefusal: Error, Hashable, Sendable {
    /// The request contradicts the protocol.
    case invalid(String)
    /// The request is right, and this server does not have what it asks for.
    case notSupported(String)
}

/// The agreed settings of an outside consumer of changes: the flags of its DCP_OPEN and its DCP_CONTROL
/// messages (docs/changes.md, *DCP*).
///
/// A setting that would have no effect is accepted only if the protocol allows the server to
/// ignore it, as with priorities. Every other unknown setting is refused.
package struct ConsumerSettings: Hashable, Sendable {
    /// Flags of DCP_OPEN.
    package struct OpenFlags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt32

        package init(rawValue: UInt32) { self.rawValue = rawValue }

        package static let producer = OpenFlags(rawValue: 0x01)
        package static let notifier = OpenFlags(rawValue: 0x02)
        package static let extendedAttributes = OpenFlags(rawValue: 0x04)
        package static let noValue = OpenFlags(rawValue: 0x08)
        package static let deleteTimes = OpenFlags(rawValue: 0x20)
        package static let noValueWithDatatype = OpenFlags(rawValue: 0x40)
        package static let deletedUserAttributes = OpenFlags(rawValue: 0x100)
    }

    /// Features of HELLO that settings depend on.
    package struct Agreement: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let attributes = Agreement(rawValue: 1)
        package static let snappy = Agreement(rawValue: 2)
    }

    /// The part of a document's value that is sent.
    package enum Values: Hashable, Sendable {
        case whole
        case none
        /// No value, but the datatype of the value that is not sent.
        case datatypeAlone
    }

    /// The seconds between two no-ops if the consumer sets none.
    package static let noopSecondsDefault: UInt64 = 180
    /// An hour: a longer silence cannot be told from a lost connection.
    private static let noopSecondsMax: UInt64 = 10_800

    private let agreed: Agreement
    package private(set) var values = Values.whole
    /// Values have their extended attributes in front of the body, also without the body.
    package let includesAttributes: Bool
    /// Deletions have the user's attributes beside the system's.
    package let includesDeletedUserAttributes: Bool
    /// Values are compressed with snappy if that is worth it.
    package private(set) var compressesValues = false
    /// Deletions are sent in the longer form, with their time.
    package private(set) var includesDeleteTimes: Bool
    /// Expirations are sent as such, not as deletions.
    package private(set) var distinguishesExpirations = false
    /// The bytes that may be unacknowledged; nil without flow control.
    package private(set) var bufferBytes: Int?
    package private(set) var isNoopEnabled = false
    package private(set) var noopSeconds = noopSecondsDefault
    /// A stream that the consumer closes ends with a message.
    package private(set) var endsClosedStreams = false

    /// The settings of a new connection.
    ///
    /// - Parameters:
    ///   - flags: The flags of its DCP_OPEN.
    ///   - agreed: What it agreed to in HELLO.
    /// - Throws: `ConsumerRefusal` if the flags ask for anything but a producer, or for extended
    ///   attributes without their agreement.
    package init(flags: OpenFlags, agreed: Agreement = []) throws(ConsumerRefusal) {
        guard flags.contains(.producer) else {
            throw flags.contains(.notifier)
                ? .notSupported("Notifier connections are not supported. Open a producer, flag 1.")
                : .notSupported(
                    "Consumer connections are for servers only. Open a producer, flag 1."
                )
        }
        guard !flags.contains(.extendedAttributes) || agreed.contains(.attributes) else {
            throw .invalid("Extended attributes were not agreed on in HELLO.")
        }
        let known: OpenFlags = [
            .producer, .extendedAttributes, .noValue, .deleteTimes, .noValueWithDatatype,
            .deletedUserAttributes,
        ]
        guard flags.isSubset(of: known) else {
            let rest = String(flags.subtracting(known).rawValue, radix: 16)
            throw .notSupported("The DCP flags 0x\(rest) are not supported.")
        }
        if flags.contains(.noValueWithDatatype) {
            values = .datatypeAlone
        } else if flags.contains(.noValue) {
            values = .none
        }
        self.agreed = agreed
        includesAttributes = flags.contains(.extendedAttributes)
        includesDeletedUserAttributes = flags.contains(.deletedUserAttributes)
        includesDeleteTimes = flags.contains(.deleteTimes)
    }

    // MARK: Controls

    /// Applies a DCP_CONTROL.
    ///
    /// - Parameters:
    ///   - name: The setting.
    ///   - value: Its value.
    /// - Throws: `ConsumerRefusal` if there is no such setting, or not this value of it.
    package mutating func apply(_ name: String, _ value: String) throws(ConsumerRefusal) {
        switch name {
        case "enable_noop": isNoopEnabled = try flag(name, value)
        case "set_noop_interval":
            let range = 1...ConsumerSettings.noopSecondsMax
            guard let seconds = UInt64(value), range.contains(seconds) else {
                throw .invalid("\(name) has to be from 1 to \(range.upperBound) seconds.")
            }
            noopSeconds = seconds
        case "connection_buffer_size":
            guard let bytes = UInt32(value) else {
                throw .invalid("\(name) has to be a number of bytes below 4 GiB.")
            }
            // Zero ends flow control, as before the first setting.
            bufferBytes = bytes == 0 ? nil : Int(bytes)
        case "enable_expiry_opcode":
            distinguishesExpirations = try flag(name, value)
            // An expiration has a time, so deletions have one too.
            if distinguishesExpirations { includesDeleteTimes = true }
        case "send_stream_end_on_client_close_stream":
            endsClosedStreams = try flag(name, value)
        case "enable_value_compression", "force_value_compression":
            let compresses = try flag(name, value)
            guard !compresses || agreed.contains(.snappy) else {
                throw .invalid("\(name) needs snappy, which was not agreed on in HELLO.")
            }
            compressesValues = compresses
        case "include_deleted_user_xattrs":
            guard try !flag(name, value) || includesDeletedUserAttributes else {
                throw .invalid("\(name) needs the flag 0x100 of DCP_OPEN.")
            }
        default: try acceptWithoutEffect(name, value)
        }
    }

    /// Settings that permit the server something it does not do, or advise it.
    private func acceptWithoutEffect(
        _ name: String,
        _ value: String
    ) throws(ConsumerRefusal) {
        switch name {
        case "set_priority": try choice(name, value, among: ["low", "medium", "high"])
        case "backfill_order": try choice(name, value, among: ["round-robin", "sequential"])
        case "max_marker_version": try choice(name, value, among: ["2.0", "2.2"])
        case "enable_out_of_order_snapshots":
            try choice(name, value, among: ["true", "false", "true_with_seqno_advanced"])
        case "supports_cursor_dropping", "supports_cursor_dropping_vulcan", "enable_ext_metadata":
            _ = try flag(name, value)
        case "enable_stream_id", "enable_sync_writes", "change_streams":
            // Turning off what is off changes nothing.
            guard try !flag(name, value) else {
                throw .notSupported("\(name) is not supported.")
            }
        default: throw .invalid("There is no setting \(ConsumerSettings.quoted(name)).")
        }
    }

    private func flag(_ name: String, _ value: String) throws(ConsumerRefusal) -> Bool {
        switch value {
        case "true": return true
        case "false": return false
        default: throw .invalid("\(name) has to be true or false.")
        }
    }

    private func choice(
        _ name: String,
        _ value: String,
        among choices: [String]
    ) throws(ConsumerRefusal) {
        guard choices.contains(value) else {
            throw .invalid("\(name) has to be one of \(choices.joined(separator: ", ")).")
        }
    }

    /// The name for a message: short, and without control characters.
    private static func quoted(_ name: String) -> String {
        String(name.unicodeScalars.filter { $0.value >= 0x20 && $0.value < 0x7f }.prefix(60))
    }
}
