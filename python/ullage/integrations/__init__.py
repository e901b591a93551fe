"""Agent frameworks with Ullage in them: one module each, which imports its framework.

| framework | what is added |
| --- | --- |
| LangChain | `create_agent(..., middleware=[UllageMiddleware()])` of `ullage.integrations.langchain` |
| Pydantic AI | `Agent(..., capabilities=[Ullage()])` of `ullage.integrations.pydantic_ai` |
| OpenAI Agents SDK | `RunConfig(call_model_input_filter=ullage_filter())` of `ullage.integrations.openai_agents` |
| Strands | `Agent(conversation_manager=UllageConversationManager())` of `ullage.integrations.strands` |
| Google ADK | `App(..., plugins=[UllagePlugin()])` of `ullage.integrations.google_adk` |
| smolagents | `CodeAgent(..., step_callbacks=[UllageCallback()])` of `ullage.integrations.smolagents` |
| Microsoft Agent Framework | `Agent(..., middleware=[UllageChatMiddleware()])` of `ullage.integrations.agent_framework` |
| Inspect | `react(compaction=UllageCompaction())` of `ullage.integrations.inspect_ai` |
| LlamaIndex | `FunctionAgent(..., llm=UllageLLM(llm))` of `ullage.integrations.llama_index` |
| litellm | `litellm.callbacks = [UllageLogger()]` of `ullage.integrations.litellm` |
| Claude Agent SDK | `ClaudeAgentOptions(hooks=ullage_hooks())` of `ullage.clients.agent_sdk` |

Each needs its extra, `pip install 'ullage[langchain]'`; without it the import raises `MissingExtra`.
"""
