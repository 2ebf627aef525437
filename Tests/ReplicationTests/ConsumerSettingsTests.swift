import Replication
import Testing

@Suite struct ConsumerSettingsTests {
    private func settings(
        _ flags: UInt32 = 1,
        _ agreed: ConsumerSettings.Agreement = []
    ) throws(ConsumerRefusal) -> ConsumerSettings {
        try ConsumerSettings(flags: ConsumerSettings.OpenFlags(rawValue: flags), agreed: agreed)
    }

    // MARK: Flags

    @Test func producerFlagsDecideWhatIsSentOfAValue() throws {
        #expect(try settings(0x01).values == .whole)
        #expect(try settings(0x09).values == .none)
        #expect(try settings(0x41).values == .datatypeAlone)
        #expect(try settings(0x49).values == .datatypeAlone)
        #expect(try !settings(0x01).includesDeleteTimes)
        #expect(try settings(0x21).includesDeleteTimes)
    }

    @Test func attributesNeedTheirAgreement() throws {
        #expect(throws: ConsumerRefusal.self) { try settings(0x05) }
        #expect(throws: ConsumerRefusal.self) { try settings(0x05, .snappy) }
        #expect(try settings(0x05, .attributes).includesAttributes)
        #expect(try !settings(0x05, .attributes).includesDeletedUserAttributes)
        #expect(try settings(0x105, .attributes).includesDeletedUserAttributes)
        #expect(try !settings(0x01, .attributes).includesAttributes)
    }

    @Test func compressionNeedsSnappy() throws {
        for name in ["enable_value_compression", "force_value_compression"] {
            var plain = try settings(0x01, .attributes)
            #expect(throws: ConsumerRefusal.self) { try plain.apply(name, "true") }
            #expect(!plain.compressesValues)
            var compressing = try settings(0x01, .snappy)
            #expect(!compressing.compressesValues)
            try compressing.apply(name, "true")
            #expect(compressing.compressesValues)
            try compressing.apply(name, "false")
            #expect(!compressing.compressesValues)
        }
    }

    @Test func deletedUserAttributesNeedTheirFlag() throws {
        var without = try settings(0x05, .attributes)
        #expect(throws: ConsumerRefusal.self) {
            try without.apply("include_deleted_user_xattrs", "true")
        }
        var with = try settings(0x105, .attributes)
        try with.apply("include_deleted_user_xattrs", "true")
    }

    @Test(arguments: [UInt32(0x00), 0x02, 0x05, 0x11, 0x81, 0x8000_0001])
    func otherFlagsAreRefused(_ flags: UInt32) {
        #expect(throws: ConsumerRefusal.self) { try settings(flags) }
    }

    // MARK: Controls

    @Test func newConnectionHasNoBufferLimitAndNoNoop() throws {
        let settings = try settings()
        #expect(settings.bufferBytes == nil)
        #expect(!settings.isNoopEnabled)
        #expect(settings.noopSeconds == ConsumerSettings.noopSecondsDefault)
        #expect(!settings.endsClosedStreams)
    }

    @Test func controlsChangeTheirSetting() throws {
        var settings = try settings()
        try settings.apply("enable_noop", "true")
        try settings.apply("set_noop_interval", "120")
        try settings.apply("connection_buffer_size", "20971520")
        try settings.apply("send_stream_end_on_client_close_stream", "true")
        #expect(settings.isNoopEnabled)
        #expect(settings.noopSeconds == 120)
        #expect(settings.bufferBytes == 20_971_520)
        #expect(settings.endsClosedStreams)
        try settings.apply("connection_buffer_size", "0")
        try settings.apply("enable_noop", "false")
        #expect(settings.bufferBytes == nil)
        #expect(!settings.isNoopEnabled)
    }

    @Test func expirationOpcodeBringsDeleteTimes() throws {
        var settings = try settings()
        try settings.apply("enable_expiry_opcode", "true")
        #expect(settings.distinguishesExpirations)
        #expect(settings.includesDeleteTimes)
    }

    @Test(arguments: [
        ("set_priority", "medium"), ("backfill_order", "sequential"), ("max_marker_version", "2.2"),
        ("enable_out_of_order_snapshots", "true_with_seqno_advanced"),
        ("supports_cursor_dropping_vulcan", "true"), ("enable_ext_metadata", "true"),
        ("enable_stream_id", "false"), ("force_value_compression", "false"),
    ])
    func permissionsAreAcceptedWithoutEffect(_ name: String, _ value: String) throws {
        var settings = try settings()
        let before = settings
        try settings.apply(name, value)
        #expect(settings == before)
    }

    @Test(arguments: [
        ("enable_noop", "1"), ("enable_noop", ""), ("set_noop_interval", "0"),
        ("set_noop_interval", "10801"), ("set_noop_interval", "-1"),
        ("connection_buffer_size", "4294967296"), ("connection_buffer_size", "x"),
        ("set_priority", "highest"), ("max_marker_version", "3"),
        ("enable_value_compression", "true"), ("enable_stream_id", "true"),
        ("enable_sync_writes", "true"), ("change_streams", "true"), ("", "true"),
        ("unknown", "true"),
    ])
    func refusedControlChangesNothing(_ name: String, _ value: String) throws {
        var settings = try settings()
        let before = settings
        #expect(throws: ConsumerRefusal.self) { try settings.apply(name, value) }
        #expect(settings == before)
    }

    @Test func messageOfAnUnknownControlIsShortAndPrintable() throws {
        var settings = try settings()
        do {
            try settings.apply("a\n" + String(repeating: "b", count: 500), "1")
            Issue.record("the control was accepted")
        } catch ConsumerRefusal.invalid(let text) {
            #expect(text == "There is no setting a" + String(repeating: "b", count: 59) + ".")
        }
    }
}
