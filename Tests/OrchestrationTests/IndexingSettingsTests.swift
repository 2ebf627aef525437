import Orchestration
import Testing
import Vocabulary

@Suite struct IndexingSettingsTests {
    private static let changed: IndexingSettings = {
        var settings = IndexingSettings()
        settings.updateIntervalMilliseconds = 60_000
        settings.updateMinChanges = 0
        settings.parallelIndexersMax = 1
        (settings.fragmentationPercent, settings.fragmentationBytes) = (nil, 5 << 20)
        return settings
    }()

    @Test func changeIsAppliedAndSurvivesEncoding() {
        var world = ClusterWorld.withDesigns()
        #expect(world.state.indexing == IndexingSettings())
        let change = IndexingChange(Self.changed, was: IndexingSettings())
        #expect(world.apply(.setIndexing(change)) == .applied([.settingsChanged]))
        #expect(world.state.indexing == Self.changed)
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
    }

    @Test func changeBasedOnOtherSettingsIsRefused() {
        var world = ClusterWorld.withDesigns()
        let change = IndexingChange(IndexingSettings(), was: Self.changed)
        #expect(world.apply(.setIndexing(change)) == .refused(.changedMeanwhile))
    }
}
